package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"strait/coordinator/api/client"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// fakeJobs is a fleet whose states the test hands out.
type fakeJobs struct {
	updates chan client.Update
	ops     string
	err     error // of Leader
}

func (f *fakeJobs) Watch(ctx context.Context, _ plan.JobID, see func(client.Update) error) error {
	for {
		select {
		case u := <-f.updates:
			if err := see(u); err != nil {
				return err
			}
			if u.Ended() {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *fakeJobs) Leader(context.Context) (*record.Leader, error) {
	return &record.Leader{Ops: f.ops}, f.err
}

func TestFollowEndsWithTheJob(t *testing.T) {
	f := &fakeJobs{updates: make(chan client.Update, 3)}
	f.updates <- running(1, 1)
	end := status(state.JobFailed, "x")
	f.updates <- end
	var b bytes.Buffer
	last, err := newFollower(f, newScreen(&b)).follow(t.Context(), "j1")
	if err != nil || last != end.Status {
		t.Errorf("%v, %v", last, err)
	}
	if b.Len() > 0 {
		t.Errorf("said %q", b.String())
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fakeJobs{updates: make(chan client.Update)}
	go func() {
		f.updates <- running(1, 1)
		cancel()
	}()
	last, err := newFollower(f, newScreen(&bytes.Buffer{})).follow(ctx, "j1")
	if !errors.Is(err, context.Canceled) || last == nil || last.Phase != state.JobRunning {
		t.Errorf("%v, %v", last, err)
	}
}

func TestCountersOfTheLeader(t *testing.T) {
	answer, code := "", http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/counters/j1" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(answer))
	}))
	defer srv.Close()
	f := &fakeJobs{ops: srv.Listener.Addr().String()}
	fl := newFollower(f, newScreen(&bytes.Buffer{}))
	defer fl.http.CloseIdleConnections()

	good, err := json.Marshal(sourceRows(7))
	if err != nil {
		t.Fatal(err)
	}
	answer = string(good)
	if got, err := fl.counters(t.Context(), "j1"); err != nil || len(got) != 2 || got[0].RowsOut != 7 {
		t.Errorf("%v, %v", got, err)
	}
	for name, set := range map[string]func(){
		"another status":   func() { code = http.StatusServiceUnavailable },
		"no JSON":          func() { code, answer = http.StatusOK, "<html>" },
		"too much":         func() { answer = `["` + strings.Repeat("x", maxCounters) + `"]` },
		"nobody there":     func() { f.ops = "127.0.0.1:1" },
		"no address":       func() { f.ops = "" },
		"a senseless one":  func() { f.ops = "\x7f" },
		"no answer at all": srv.Close,
	} {
		set()
		if got, err := fl.counters(t.Context(), "j1"); err != nil || got != nil { // the lines show no numbers then
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	f.err = errors.New("x")
	if _, err := fl.counters(t.Context(), "j1"); err == nil || !strings.HasPrefix(err.Error(), "nothing is heard of the job") {
		t.Errorf("etcd is away: %v", err)
	}
	f.err = client.ErrNoLeader
	if _, err := fl.counters(t.Context(), "j1"); !errors.Is(err, client.ErrNoLeader) {
		t.Errorf("no leader: %v", err)
	}
}
