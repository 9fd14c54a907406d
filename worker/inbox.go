package worker

import (
	"sync"

	"strait/worker/task/keeper"
)

// inbox is what a host has yet to take in. Its senders never wait: each sends a bounded number of events, or
// (Changed) one however often.
type inbox struct {
	kick chan struct{}

	mu      sync.Mutex
	events  []keeper.Event
	changed bool // the states of task groups
	asks    []chan<- struct{}
}

func newInbox() *inbox { return &inbox{kick: make(chan struct{}, 1)} }

func (i *inbox) put(e keeper.Event) {
	i.mu.Lock()
	i.events = append(i.events, e)
	i.mu.Unlock()
	i.wake()
}

func (i *inbox) change() {
	i.mu.Lock()
	i.changed = true
	i.mu.Unlock()
	i.wake()
}

func (i *inbox) wake() {
	select {
	case i.kick <- struct{}{}:
	default:
	}
}

// ask has answer closed by whoever takes events.
func (i *inbox) ask(answer chan<- struct{}) {
	i.mu.Lock()
	i.asks = append(i.asks, answer)
	i.mu.Unlock()
	i.wake()
}

// take answers who asked, and returns all events and whether group states have changed.
func (i *inbox) take() ([]keeper.Event, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	events, changed := i.events, i.changed
	for _, a := range i.asks {
		close(a)
	}
	i.events, i.changed, i.asks = nil, false, nil
	return events, changed
}

func (i *inbox) empty() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.events) == 0
}
