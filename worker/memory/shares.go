package memory

import (
	"fmt"
	"strings"

	"strait/plan/units"
	"strait/transport/batch"
)

// Range is the least that something works with and the most that it can use, in bytes.
type Range struct{ Least, Most int64 }

// What the parts of an attempt take, each.
var (
	batchRange  = Range{32 << 10, batch.TargetBytes}
	aheadRange  = Range{32 << 10, 2 << 20}
	gatherRange = Range{64 << 10, 16 << 20}
	inboxRange  = Range{32 << 10, 1 << 20}
	linkRange   = Range{128 << 10, 4 << 20}
	// WriterRange is of a sink that does not say what its writers buffer.
	WriterRange = Range{32 << 10, 1 << 20}
)

// Batches held beside the queues: a reader has one that it fills and one that its queue takes beyond its bound; a task
// group has one in hand and what its transforms make of it.
const (
	readerBatches = 2
	groupBatches  = 2
)

// Copies is how often an element lies in memory while it passes a chain: as it came, as it is gathered or encoded, and
// once more while one of these grows.
const Copies = 3

// Use counts what of an attempt runs on one worker.
type Use struct {
	Readers   int // source subtasks
	Groups    int // task groups, those of sources included
	Chains    int // that these are of
	Gatherers int // producers of hash exchanges
	Consumers int // ends of exchanges
	Links     int // other workers of the attempt
	Writers   []Writers
}

// Writers are the subtasks of one sink.
type Writers struct {
	N int
	Range
}

// Shares say what each part may hold, in bytes.
type Shares struct {
	Bound     int64 // all together, and inboxes that grow
	Batch     int64 // a batch that is read
	ReadAhead int64 // a reader's queue
	Gather    int64 // a producer of a hash exchange
	Inbox     int64 // an inbox, to begin with
	Link      int64 // frames that wait for a connection
	Received  int64 // all inboxes together, as far as they may grow
	LargePool int64 // of each chain: what elements above their share take together
	full      float64
}

// Writer is the share of a writer that buffers within r.
func (s Shares) Writer(r Range) int64 { return s.of(r) }

// Most is the largest element that can pass.
func (s Shares) Most() int64 { return s.Bound / (Copies + 1) }

// Weight is what an element takes of the pool of its chain: nothing unless it is large.
func (s Shares) Weight(bytes int64) int64 {
	if bytes <= 2*s.Batch {
		return 0
	}
	return min(Copies*bytes, s.LargePool)
}

func (s Shares) of(r Range) int64 { return r.Least + int64(s.full*float64(r.Most-r.Least)) }

// Floor is the least that the parts work with together: what is admitted must not be less.
func (u Use) Floor() int64 { return u.sum(func(r Range) int64 { return r.Least }) }

func (u Use) sum(f func(Range) int64) int64 {
	n := int64(readerBatches*u.Readers+groupBatches*u.Groups) * f(batchRange)
	n += int64(u.Readers)*f(aheadRange) + int64(u.Gatherers)*f(gatherRange) + int64(u.Consumers)*f(inboxRange) + int64(u.Links)*f(linkRange)
	for _, w := range u.Writers {
		n += int64(w.N) * f(w.Range)
	}
	return n
}

// Divide divides bound among the parts: all of them come equally close to the most that they can use. A quarter is
// kept for large elements, and what nobody needs for inboxes that grow. It is a pure function.
func Divide(u Use, bound int64) Shares {
	s := Shares{Bound: max(bound, u.Floor()), full: 1}
	least, most := u.Floor(), u.sum(func(r Range) int64 { return r.Most })
	if have := s.Bound * 3 / 4; have < most {
		s.full = max(float64(have-least)/float64(most-least), 0)
	}
	s.Batch, s.ReadAhead, s.Gather = s.of(batchRange), s.of(aheadRange), s.of(gatherRange)
	s.Inbox, s.Link = s.of(inboxRange), s.of(linkRange)
	others := u
	others.Consumers = 0
	s.Received = max(s.Bound*3/4-others.sum(s.of), int64(u.Consumers)*s.Inbox)
	s.LargePool = max(s.Bound/4/int64(max(u.Chains, 1)), 1)
	return s
}

// String says what there is, for messages.
func (u Use) String() string {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	writers := 0
	for _, w := range u.Writers {
		writers += w.N
	}
	add(u.Readers, "source subtasks")
	add(writers, "sink subtasks")
	add(u.Consumers, "ends of exchanges")
	add(u.Links, "links")
	return strings.Join(parts, ", ")
}

// TooLarge is the error of an element that cannot pass. where names worker, job part or both.
func (s Shares) TooLarge(rows int, bytes int64) error {
	what := "a row"
	if rows != 1 {
		what = fmt.Sprintf("a batch of %d rows", rows)
	}
	return fmt.Errorf("%s of %s is too large for the memory of this job on its worker: of the %s that it may hold there, one element may take %s, since it lies in memory about %d times on its way; give the job more (env.slot.memory) or the worker (worker.memory), or make the rows smaller",
		what, units.FormatBytes(bytes), units.FormatBytes(s.Bound), units.FormatBytes(s.Most()), Copies+1)
}
