package shuffle

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"strait/transport/local"
	"strait/transport/queue"
	"strait/transport/stream"
	"strait/transport/wire"
)

// ErrClosed is the cause of an attempt closed with a nil cause.
var ErrClosed = errors.New("the pipeline attempt is closed")

// Attempt is one pipeline attempt on this worker.
type Attempt struct {
	s      *Service
	cfg    AttemptConfig
	edges  map[int]*edge
	memory Memory // no field is zero but Received
	budget *local.Budget
	outs   map[string]*outLink  // by peer; fixed after newAttempt
	ins    map[string]*inLink   // by peer; fixed after newAttempt
	self   *queue.Queue[[]byte] // control frames from this worker to itself
	done   chan struct{}        // closed with the attempt
	wg     sync.WaitGroup

	mu      sync.Mutex
	cause   error // set with done
	orderly bool  // closed with a nil cause
}

// edge is an edge as this worker sees it.
type edge struct {
	stream.Edge
	inboxes   map[int]*local.Inbox // by consumer of this worker
	here      []int                // consumers of this worker, ascending
	elsewhere []string             // other workers with consumers, in order of first consumer
	prints    []uint64             // fingerprints of the tables
}

// newAttempt makes inboxes and links. It starts nothing but the goroutine that delivers control frames to self.
func newAttempt(s *Service, cfg AttemptConfig) (*Attempt, error) {
	a := &Attempt{
		s: s, cfg: cfg, edges: map[int]*edge{}, outs: map[string]*outLink{}, ins: map[string]*inLink{},
		self: queue.New[[]byte](controlMost), done: make(chan struct{}), memory: cfg.Memory.within(), budget: s.budget,
	}
	if a.memory.Received > 0 {
		a.budget = local.NewOwn(a.memory.Received)
	}
	for peer, addr := range cfg.Peers {
		if peer == s.cfg.Worker {
			continue
		}
		a.outs[peer] = newOutLink(a, peer, addr)
		a.ins[peer] = newInLink(a, peer)
	}
	consumers := 0
	for _, e := range cfg.Edges {
		for _, w := range e.Consumers {
			if w == s.cfg.Worker {
				consumers++
			}
		}
	}
	floor := a.memory.Inbox
	if consumers > 0 && a.memory.Received == 0 { // half of what is left at most
		floor = min(floor, max(s.budget.Left()/2/int64(consumers), 1))
	}
	if floor < inboxFloor/16 {
		s.log.Warn("memory for received rows is short; give the worker more, or the job less parallelism", "worker", s.cfg.Worker,
			"job", string(cfg.Key.Job), "pipeline", int(cfg.Key.Pipeline), "consumers", consumers, "bytes_each", floor, "bytes_in_all", s.cfg.MemoryBytes)
	}
	for _, e := range cfg.Edges {
		if err := a.addEdge(e, floor); err != nil {
			a.abort()
			return nil, fmt.Errorf("%s: edge %d: %w", describe(cfg.Key), e.ID, err)
		}
	}
	return a, nil
}

// inboxFloor is the least that a consumer reserves where memory suffices: one batch of the target size.
const inboxFloor int64 = 1 << 20

// within fills in what is not given.
func (m Memory) within() Memory {
	set := func(v *int64, most int64) {
		if *v <= 0 || *v > most {
			*v = most
		}
	}
	set(&m.Inbox, inboxFloor)
	set(&m.Gather, gatherMost)
	set(&m.Link, linkMost)
	return m
}

func (a *Attempt) addEdge(e stream.Edge, floor int64) error {
	switch {
	case a.edges[e.ID] != nil:
		return errors.New("BUG: there are two of that id")
	case e.Exchange == stream.Forward && len(e.Producers) != len(e.Consumers):
		return fmt.Errorf("BUG: forward from %d producers to %d consumers", len(e.Producers), len(e.Consumers))
	case len(e.Producers) == 0 || len(e.Consumers) == 0:
		return errors.New("BUG: no producers or no consumers")
	case e.Exchange == stream.Hash && len(e.Keys) != len(e.Tables):
		return fmt.Errorf("BUG: keys of %d tables for %d tables", len(e.Keys), len(e.Tables))
	}
	x := &edge{Edge: e, inboxes: map[int]*local.Inbox{}}
	a.edges[e.ID] = x
	self := a.s.cfg.Worker
	seen := map[string]bool{self: true}
	for i, w := range e.Consumers {
		if w == self {
			x.here = append(x.here, i)
			channels := len(e.Producers)
			if e.Exchange == stream.Forward {
				channels = 1
			}
			x.inboxes[i] = local.NewInbox(channels, floor, a.budget)
		}
		if !seen[w] {
			seen[w] = true
			x.elsewhere = append(x.elsewhere, w)
		}
	}
	for _, t := range e.Tables {
		x.prints = append(x.prints, wire.Fingerprint(t))
	}
	for i, w := range e.Producers {
		for _, to := range x.elsewhere {
			if w == self && a.outs[to] == nil {
				return fmt.Errorf("BUG: producer %d has consumers on worker %s, which is no peer", i, to)
			}
		}
		if w != self && len(x.here) > 0 && a.ins[w] == nil {
			return fmt.Errorf("BUG: producer %d is on worker %s, which is no peer", i, w)
		}
	}
	return nil
}

// channel is the channel by which a consumer knows a producer.
func (e *edge) channel(producer int) int {
	if e.Exchange == stream.Forward {
		return 0
	}
	return producer
}

// Input is the end of an edge that a consuming subtask of this worker reads. With a forward exchange it has one
// channel, else one per producing subtask.
func (a *Attempt) Input(edge, consumer int) stream.Input {
	e := a.edges[edge]
	if e == nil || e.inboxes[consumer] == nil {
		panic(fmt.Sprintf("BUG: consumer %d of edge %d is not on worker %s", consumer, edge, a.s.cfg.Worker))
	}
	return e.inboxes[consumer]
}

// Control sends a small frame to a worker of the attempt. It does not block; frames wait until the connection
// is there. Frames to this worker itself are delivered by a goroutine of the attempt, never from within Control.
func (a *Attempt) Control(to string, frame []byte) error {
	if len(frame) > wire.MaxControl {
		return fmt.Errorf("control frame of %d bytes to worker %s, at most %d", len(frame), to, wire.MaxControl)
	}
	if to == a.s.cfg.Worker {
		ok, err := a.self.TryPush(append([]byte(nil), frame...), int64(len(frame))+1)
		if err == nil && !ok {
			err = fmt.Errorf("control frames of worker %s to itself are not taken", to)
		}
		return err
	}
	l := a.outs[to]
	if l == nil {
		return fmt.Errorf("control frame to worker %s, which is no peer in %s", to, describe(a.cfg.Key))
	}
	return l.control(frame)
}

// deliverSelf hands over the control frames of this worker to itself until the attempt ends.
func (a *Attempt) deliverSelf() {
	for {
		frame, err := a.self.Pop(context.Background()) // ends with the attempt, which closes the queue
		if err != nil {
			return
		}
		if a.cfg.OnControl != nil && a.Cause() == nil {
			a.cfg.OnControl(a.s.cfg.Worker, frame)
		}
	}
}

// Cause is why the attempt ended; nil while it has not.
func (a *Attempt) Cause() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.cause
}

// Done is closed when the attempt has ended.
func (a *Attempt) Done() <-chan struct{} { return a.done }

// Wait returns when the attempt has ended and all its goroutines have, so that neither OnControl nor OnFailure
// runs any more. It must not be called from within them.
func (a *Attempt) Wait() {
	<-a.done
	a.wg.Wait()
}

// Close ends the attempt on this worker: every blocked call returns cause, peers are told it and connections
// are closed. With a nil cause the attempt has done its work: peers do not take the closed connections for a
// failure. It does not wait for goroutines (Wait does) and is idempotent.
func (a *Attempt) Close(cause error) {
	a.end(cause, "")
}

// fail ends the attempt because of a peer or a frame, and reports it.
func (a *Attempt) fail(peer string, err error) {
	a.end(err, peer)
}

// end ends the attempt; with a peer it is a failure to report.
func (a *Attempt) end(cause error, peer string) {
	a.mu.Lock()
	if a.cause != nil {
		a.mu.Unlock()
		return
	}
	if a.orderly = cause == nil; a.orderly {
		cause = ErrClosed
	}
	report := peer != "" && a.cfg.OnFailure != nil && a.s.enter()
	if report {
		a.wg.Add(1)
	}
	a.cause = fmt.Errorf("%s: %w", describe(a.cfg.Key), cause)
	if peer != "" {
		a.cause = &stream.LinkError{Peer: peer, Err: a.cause}
	}
	cause = a.cause
	close(a.done)
	a.mu.Unlock()
	a.s.closed(a)
	a.release(cause)
	if peer != "" && a.cfg.OnFailure == nil {
		a.s.log.Warn("data link failed", "worker", a.s.cfg.Worker, "peer", peer, "job", string(a.cfg.Key.Job),
			"pipeline", int(a.cfg.Key.Pipeline), "attempt", int64(a.cfg.Key.Attempt), "err", cause)
	}
	if report {
		go func() {
			defer a.leave()
			a.cfg.OnFailure(peer, cause)
		}()
	}
}

// enter counts a goroutine of the attempt; false when the attempt has ended. Wait and Service.Run wait for leave.
func (a *Attempt) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cause != nil || !a.s.enter() {
		return false
	}
	a.wg.Add(1)
	return true
}

func (a *Attempt) leave() {
	a.wg.Done()
	a.s.wg.Done()
}

// start runs f in a goroutine of the attempt; false when the attempt has ended.
func (a *Attempt) start(f func()) bool {
	if !a.enter() {
		return false
	}
	go func() {
		defer a.leave()
		f()
	}()
	return true
}

// release wakes everybody who waits on the attempt.
func (a *Attempt) release(cause error) {
	a.self.Close(cause)
	for _, e := range a.edges {
		for _, in := range e.inboxes {
			in.Close(cause)
		}
	}
	for _, l := range a.outs {
		l.close()
	}
	for _, l := range a.ins {
		l.close()
	}
}

// abort takes back an attempt that was never registered.
func (a *Attempt) abort() { a.release(ErrClosed) }
