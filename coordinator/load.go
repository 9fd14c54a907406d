package coordinator

import (
	"runtime"
	"sync"
	"sync/atomic"

	"strait/coordinator/job"
	"strait/kv"
	"strait/kv/keys"
	"strait/kv/mirror"
)

// load sets the facts of the first batch and decodes the plans. A new leader reads every key of every job before it
// acts; the jobs have nothing to do with each other, so all processors read at once.
func (l *loop) load(events []mirror.Event) {
	type event struct {
		k keys.Parsed
		e kv.Entry
	}
	of := map[*entry][]event{}
	var all []*entry
	for i := range events {
		k, ok := l.c.Tree.Parse(events[i].Entry.Key)
		if !ok || !job.Tells(k.Kind) {
			continue
		}
		x := l.entry(k.Job)
		if of[x] == nil {
			all = append(all, x)
		}
		of[x] = append(of[x], event{k, events[i].Entry})
	}
	each(len(all), func(i int) {
		for _, ev := range of[all[i]] {
			all[i].facts.Set(ev.k, ev.e)
		}
		l.decode(all[i])
	})
}

// each calls f with 0 to n-1 from a goroutine a processor and returns when all calls have.
func each(n int, f func(i int)) {
	const stretch = 64
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (n+stretch-1)/stretch) {
		all.Go(func() {
			for {
				from := int(next.Add(stretch)) - stretch
				if from >= n {
					return
				}
				for i := from; i < min(from+stretch, n); i++ {
					f(i)
				}
			}
		})
	}
	all.Wait()
}
