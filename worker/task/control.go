package task

import (
	"sync"
	"sync/atomic"

	"strait/checkpoint"
	"strait/plan"
	"strait/worker/task/ledger"
)

// control is what a task is told from outside its loop. The loop looks at it before every batch, at the price of one
// atomic load when there is nothing.
type control struct {
	flag atomic.Bool
	kick chan struct{} // a token while flag is set

	mu   sync.Mutex
	news news
}

// news is everything since the last look. Barriers and aborts only grow, so the newest of each is enough.
type news struct {
	barrier   checkpoint.Barrier
	aborted   plan.CheckpointID
	completed plan.CheckpointID
	frames    []*ledger.Frame
}

func newControl() control { return control{kick: make(chan struct{}, 1)} }

func (c *control) tell(f func(n *news)) {
	c.mu.Lock()
	f(&c.news)
	c.mu.Unlock()
	c.wake()
}

// wake makes the loop look, also when nothing was told.
func (c *control) wake() {
	c.flag.Store(true)
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

func (c *control) barrier(b checkpoint.Barrier) { c.tell(func(n *news) { n.barrier = b }) }
func (c *control) abort(id plan.CheckpointID) {
	c.tell(func(n *news) { n.aborted = max(n.aborted, id) })
}
func (c *control) complete(id plan.CheckpointID) {
	c.tell(func(n *news) { n.completed = max(n.completed, id) })
}
func (c *control) frame(f *ledger.Frame) {
	c.tell(func(n *news) { n.frames = append(n.frames, f) })
}

// take returns what is new; ok is false when the loop was not told anything.
func (c *control) take() (n news, ok bool) {
	if !c.flag.Load() {
		return n, false
	}
	c.flag.Store(false) // before the look, so that nothing told after it is missed
	c.mu.Lock()
	n, c.news = c.news, news{}
	c.mu.Unlock()
	return n, true
}
