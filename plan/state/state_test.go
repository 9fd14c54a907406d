package state

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// matrices shows every pair: a row from, a column to, x where the move is legal.
const jobMatrix = `
                SUB PLA PEN PRE SCH RUN RES SAV CAN FAI CLO FIN SDO CLD FLD
SUBMITTED       .   x   .   .   .   .   .   .   x   x   .   .   .   .   .
PLANNED         .   .   x   .   .   .   .   .   x   x   .   .   .   .   .
PENDING         .   .   .   x   x   .   .   .   x   x   .   .   .   .   .
PREPARING       .   .   x   .   x   .   .   .   x   x   .   .   .   .   .
SCHEDULED       .   .   x   .   .   x   x   .   x   x   .   .   .   .   .
RUNNING         .   .   .   .   .   .   x   x   x   x   x   .   .   .   .
RESTARTING      .   .   .   .   .   x   .   .   x   x   x   .   .   .   .
SAVEPOINTING    .   .   .   .   .   x   x   .   x   x   x   .   .   .   .
CANCELLING      .   .   .   .   .   .   .   .   .   .   x   .   .   .   .
FAILING         .   .   .   .   .   .   .   .   .   .   x   .   .   .   .
CLOSING         .   .   .   .   .   .   .   .   .   .   .   x   x   x   x
FINISHED        .   .   .   .   .   .   .   .   .   .   .   .   .   .   .
SAVEPOINT_DONE  .   .   .   .   .   .   .   .   .   .   .   .   .   .   .
CANCELLED       .   .   .   .   .   .   .   .   .   .   .   .   .   .   .
FAILED          .   .   .   .   .   .   .   .   .   .   .   .   .   .   .`

const pipelineMatrix = `
           dep run clo sto
deploying  x   x   x   x
running    x   .   x   x
closing    x   .   x   x
stopped    .   .   .   .`

const taskMatrix = `
                 CRE INI WAI REA STA RUN DRA PRE FIN CNG CLD FAI
CREATED          .   x   .   .   .   .   .   .   .   x   .   x
INIT             .   .   x   .   .   .   .   .   .   x   .   x
WAITING_RESTORE  .   .   .   x   .   .   .   .   .   x   .   x
READY            .   .   .   .   x   .   .   .   .   x   .   x
STARTING         .   .   .   .   .   x   .   .   .   x   .   x
RUNNING          .   .   .   .   .   .   x   x   .   x   .   x
DRAINED          .   .   .   .   .   .   .   x   .   x   .   x
PREPARE_CLOSE    .   .   .   .   .   x   x   .   x   x   .   x
FINISHED         .   .   .   .   .   .   .   .   .   .   .   .
CANCELLING       .   .   .   .   .   .   .   .   .   .   x   x
CANCELLED        .   .   .   .   .   .   .   .   .   .   .   .
FAILED           .   .   .   .   .   .   .   .   .   .   .   .`

func TestEveryPair(t *testing.T) {
	everyPair[Job](t, jobMatrix, jobMoves)
	everyPair[Pipeline](t, pipelineMatrix, pipelineMoves)
	everyPair[Task](t, taskMatrix, taskMoves)
}

func everyPair[S interface {
	State
	Terminal() bool
	Valid() bool
	String() string
}](t *testing.T, matrix string, moves map[S][]S) {
	t.Helper()
	lines := strings.Split(strings.TrimPrefix(matrix, "\n"), "\n")[1:]
	states := make([]S, len(lines))
	for i, line := range lines {
		states[i] = S(strings.Fields(line)[0])
	}
	if len(states) != len(moves) {
		t.Fatalf("the matrix has %d states, the table %d", len(states), len(moves))
	}
	for i, from := range states {
		cells := strings.Fields(lines[i])[1:]
		leaves := false
		for j, to := range states {
			err := Move(from, to)
			if legal := cells[j] == "x"; legal != (err == nil) {
				t.Errorf("%s to %s: legal %v, but Move says %v", from, to, legal, err)
			}
			leaves = leaves || err == nil && from != to
		}
		if from.Terminal() && leaves {
			t.Errorf("%s is terminal and left", from)
		}
		if !from.Terminal() && !leaves {
			t.Errorf("%s is not terminal and never left", from)
		}
		if !from.Valid() || from.String() != string(from) {
			t.Errorf("%s: Valid %v, String %s", from, from.Valid(), from)
		}
		if a, err := Takeover(from); err != nil || a.String() == "" {
			t.Errorf("a new leader that finds %s: %q, %v", from, a, err)
		}
		// Convergence: a terminal state can be reached.
		seen, todo, ends := map[S]bool{}, []S{from}, false
		for len(todo) > 0 {
			s := todo[0]
			todo = todo[1:]
			if seen[s] {
				continue
			}
			seen[s], ends = true, ends || s.Terminal()
			todo = append(todo, moves[s]...)
		}
		if !ends {
			t.Errorf("%s leads to no end", from)
		}
		for _, to := range moves[from] {
			if !slices.Contains(states, to) {
				t.Errorf("%s leads to %q, which is no state", from, to)
			}
		}
	}
	if S("").Valid() || S("").Terminal() {
		t.Error("the empty text is no state")
	}
	if _, err := Takeover(S("x")); err == nil {
		t.Error("Takeover of a text that is no state: no error")
	}
}

// TestCancelAndFail: every state that is not terminal or on its way there can be cancelled and can fail.
func TestCancelAndFail(t *testing.T) {
	for s := range jobMoves {
		if s.Terminal() || s == JobClosing || s == JobCancelling || s == JobFailing {
			continue
		}
		if err := errors.Join(Move(s, JobCancelling), Move(s, JobFailing)); err != nil {
			t.Error(err)
		}
	}
	for s := range taskMoves {
		if s.Terminal() {
			continue
		}
		if err := Move(s, TaskFailed); err != nil {
			t.Error(err)
		}
	}
}

func TestMoveMessages(t *testing.T) {
	f := func(err error, want string) {
		t.Helper()
		var e *IllegalMove
		if !errors.As(err, &e) || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	f(Move(JobRunning, JobPending), "a job cannot go from RUNNING to PENDING, only to RESTARTING, SAVEPOINTING, CLOSING, CANCELLING, FAILING")
	f(Move(JobFinished, JobRunning), "a job cannot go from FINISHED to RUNNING: FINISHED is terminal")
	f(Move(Task("X"), TaskRunning), `"X" is not a state of a task`)
}
