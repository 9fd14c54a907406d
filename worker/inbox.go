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

// take returns all events and whether group states have changed.
func (i *inbox) take() ([]keeper.Event, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	events, changed := i.events, i.changed
	i.events, i.changed = nil, false
	return events, changed
}

func (i *inbox) empty() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.events) == 0
}
