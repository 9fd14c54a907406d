package memory

import (
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func drawUse(r *rapid.T) Use {
	n := func(name string) int { return rapid.IntRange(0, 600).Draw(r, name) }
	u := Use{Readers: n("readers"), Groups: n("groups"), Chains: rapid.IntRange(0, 5).Draw(r, "chains"), Gatherers: n("gatherers"), Consumers: n("consumers"), Links: n("links")}
	for range rapid.IntRange(0, 3).Draw(r, "sinks") {
		least := rapid.Int64Range(1, 4<<20).Draw(r, "least")
		u.Writers = append(u.Writers, Writers{n("writers"), Range{least, least + rapid.Int64Range(0, 100<<20).Draw(r, "more")}})
	}
	return u
}

// TestDivide: what is given is within what each part can use, and all of it together within the bound.
func TestDivide(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		u := drawUse(r)
		bound := rapid.OneOf(rapid.Int64Range(0, 1<<20), rapid.Int64Range(0, 1<<40)).Draw(r, "bound")
		s := Divide(u, bound)
		if s.Bound != max(bound, u.Floor()) {
			r.Fatalf("bound %d of %d, floor %d", s.Bound, bound, u.Floor())
		}
		check := func(what string, got int64, in Range) {
			if got < in.Least || got > in.Most {
				r.Fatalf("%s: %d, want %d to %d", what, got, in.Least, in.Most)
			}
		}
		check("batch", s.Batch, batchRange)
		check("read ahead", s.ReadAhead, aheadRange)
		check("gather", s.Gather, gatherRange)
		check("inbox", s.Inbox, inboxRange)
		check("link", s.Link, linkRange)
		for _, w := range u.Writers {
			check("writer", s.Writer(w.Range), w.Range)
		}
		if sum := u.sum(s.of); sum > max(s.Bound*3/4, u.Floor()) {
			r.Fatalf("shares of %d together of a bound of %d, floor %d", sum, s.Bound, u.Floor())
		}
		if s.Received < int64(u.Consumers)*s.Inbox {
			r.Fatalf("inboxes may have %d, begin with %d", s.Received, int64(u.Consumers)*s.Inbox)
		}
		if w := s.Weight(rapid.Int64Range(0, s.Most()).Draw(r, "bytes")); w < 0 || w > s.LargePool {
			r.Fatalf("weight %d of a pool of %d", w, s.LargePool)
		}
		more := Divide(u, bound+rapid.Int64Range(0, 1<<30).Draw(r, "more"))
		if more.Batch < s.Batch || more.Gather < s.Gather || more.Most() < s.Most() {
			r.Fatalf("more memory gives less: %+v, then %+v", s, more)
		}
	})
}

func TestDivideExamples(t *testing.T) {
	u := Use{Readers: 8, Groups: 16, Chains: 2, Gatherers: 8, Consumers: 8, Links: 1, Writers: []Writers{{8, Range{256 << 10, 512 << 10}}}}
	plenty := Divide(u, 4<<30)
	if plenty.Batch != 1<<20 || plenty.ReadAhead != 2<<20 || plenty.Gather != 16<<20 || plenty.Inbox != 1<<20 || plenty.Link != 4<<20 || plenty.Writer(u.Writers[0].Range) != 512<<10 {
		t.Errorf("with plenty of memory nothing is cut: %+v", plenty)
	}
	least := Divide(u, 0)
	if least.Batch != 32<<10 || least.ReadAhead != 32<<10 || least.Gather != 64<<10 || least.Bound != u.Floor() {
		t.Errorf("the floor: %+v", least)
	}
	if plenty.Weight(2<<20) != 0 || plenty.Weight(2<<20+1) != 3*(2<<20+1) {
		t.Error("two batches are not large, one byte more is")
	}
}

// TestBudget: what is admitted stays within the budget, whatever comes and goes; who is refused gets nothing.
func TestBudget(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := NewBudget(rapid.Int64Range(0, 4<<30).Draw(r, "limit"))
		var in []Shares
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			if len(in) > 0 && rapid.Bool().Draw(r, "release") {
				i := rapid.IntRange(0, len(in)-1).Draw(r, "which")
				b.Release(in[i])
				in = append(in[:i], in[i+1:]...)
				continue
			}
			u := drawUse(r)
			left := b.Limit() - b.Used()
			s, err := b.Admit(u, rapid.Int64Range(0, 8<<30).Draw(r, "want"))
			if (err != nil) != (u.Floor() > left) {
				r.Fatalf("floor %d, left %d: %v", u.Floor(), left, err)
			}
			if err == nil {
				in = append(in, s)
			}
			if b.Used() > b.Limit() {
				r.Fatalf("%d of %d are reserved", b.Used(), b.Limit())
			}
		}
		for _, s := range in {
			b.Release(s)
		}
		if b.Used() != 0 {
			r.Fatalf("%d bytes are left over", b.Used())
		}
	})
}

func TestRefusal(t *testing.T) {
	b := NewBudget(64 << 20)
	if _, err := b.Admit(Use{Readers: 1, Groups: 1}, 60<<20); err != nil {
		t.Fatal(err)
	}
	_, err := b.Admit(Use{Readers: 100, Groups: 200, Chains: 2, Consumers: 100, Links: 2, Writers: []Writers{{100, WriterRange}}}, 0)
	want := "not admitted: 100 source subtasks, 100 sink subtasks, 100 ends of exchanges, 2 links need 28.4 MiB of memory at least, of the 64.0 MiB of this worker (worker.memory) 4.0 MiB are not reserved; lower the parallelism, give the worker more memory, or let it run fewer slots"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

func TestBudgetIsShared(t *testing.T) {
	b := NewBudget(100 << 20)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if s, err := b.Admit(Use{Readers: 1, Groups: 1}, 30<<20); err == nil {
					b.Release(s)
				}
			}
		})
	}
	wg.Wait()
	if b.Used() != 0 {
		t.Error(b.Used())
	}
}

func TestTooLarge(t *testing.T) {
	s := Divide(Use{Readers: 1}, 48<<20)
	want := "a row of 20.0 MiB is too large for the memory of this job on its worker: of the 48.0 MiB that it may hold there, one element may take 12.0 MiB, since it lies in memory about 4 times on its way; give the job more (env.slot.memory) or the worker (worker.memory), or make the rows smaller"
	if got := s.TooLarge(1, 20<<20).Error(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := s.TooLarge(7, 20<<20).Error(); !strings.HasPrefix(got, "a batch of 7 rows of 20.0 MiB") {
		t.Error(got)
	}
}
