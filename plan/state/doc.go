// Package state holds the life cycles of jobs, pipelines and tasks: which states there are, which step from
// one to another is legal, and what a new leader does with each state it finds.
//
//	Job       SUBMITTED → PLANNED → PENDING → PREPARING → SCHEDULED → RUNNING → CLOSING → FINISHED
//	          RUNNING ⇄ RESTARTING      RUNNING → SAVEPOINTING → CLOSING → SAVEPOINT_DONE
//	          any of these → CANCELLING → CLOSING → CANCELLED
//	          any of these → FAILING    → CLOSING → FAILED
//	Pipeline  deploying → running → closing → stopped, with attempt+1 back to deploying
//	Task      CREATED → INIT → WAITING_RESTORE → READY → STARTING → RUNNING → DRAINED → PREPARE_CLOSE → FINISHED
//	          any of these → CANCELLING → CANCELLED      any of these → FAILED
//
// Each life cycle is one table of legal moves. Invariants: a pair that is not in the table is refused by Move,
// never ignored; nothing leaves a terminal state; every state leads to a terminal one. Who writes states may
// take several moves in one write, but each of them is checked.
//
// The texts of the states are those of the key tree and of `stctl status`: a change of one is a change of the
// public interface.
package state
