package fleet

import (
	"time"

	"strait/coordinator/schedule"
	"strait/kv/record"
)

// LoadFor is how long a sample says something of a worker: one that did not answer for so long is unknown.
const LoadFor = 30 * time.Second

type sample struct {
	at   time.Time
	busy int // millionths
}

// Sample notes how busy the host of a worker is, as it answered at a time. Weigh makes it count.
func (f *Fleet) Sample(worker string, l record.Load, now time.Time) {
	live := f.live[worker]
	if live == nil || live.Incarnation != l.Incarnation {
		return
	}
	part := func(x float64) int { return int(min(max(x, 0), 1) * 1e6) }
	s := append([]sample{{now, (part(l.CPU) + part(l.Memory)) / 2}}, f.samples[worker]...)
	f.samples[worker] = s[:min(len(s), schedule.Samples)]
	f.at(worker).Load.Since = 0
}

// Weigh brings the loads that the scheduler sees in line with the samples. Samples that are too old do not count.
func (f *Fleet) Weigh(now time.Time) {
	for i := range f.view {
		w := &f.view[i]
		var busy []int
		for _, s := range f.samples[w.Name] {
			if now.Sub(s.at) < LoadFor {
				busy = append(busy, s.busy)
			}
		}
		w.Load.Known, w.Load.Busy = len(busy) > 0, schedule.Weigh(busy)
	}
}
