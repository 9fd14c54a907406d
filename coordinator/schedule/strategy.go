package schedule

import (
	"math/rand/v2"
)

// Strategy says which of the workers with room takes the next unit.
type Strategy string

// The strategies. The empty one is SlotRatio.
const (
	SlotRatio  Strategy = "slot-ratio"  // the one least in use
	Random     Strategy = "random"      // any, as the seed says
	SystemLoad Strategy = "system-load" // the one whose host has least to do; unknown: as SlotRatio
)

// Strategies are all of them.
var Strategies = []Strategy{SlotRatio, Random, SystemLoad}

// million is a worker that is wholly in use; what is compared are millionths.
const million = 1_000_000

// Load is how busy the host of a worker is.
type Load struct {
	Known bool
	Busy  int // millionths, from several samples; the newest count most
	Since int // slots granted after the newest sample: it does not show them yet
}

// weights of the samples, the newest first.
var weights = [...]int{4, 2, 2, 1, 1}

// Samples is how many samples Weigh looks at.
const Samples = len(weights)

// Weigh makes one figure of samples in millionths, the newest first.
func Weigh(samples []int) int {
	sum, n := 0, 0
	for i, s := range samples[:min(len(samples), Samples)] {
		sum, n = sum+weights[i]*s, n+weights[i]
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// perSlot is what a slot that was just granted is thought to add to the load of its host.
const perSlot = million / 10

// spread gives n units to workers with room and counts in got how many each took, by index of open. There is room.
func (s Strategy) spread(need *Need, open []bin, n int, got []int) {
	if s == Random {
		r := rand.New(rand.NewPCG(need.Seed, uint64(len(need.Units))))
		with := make([]int, 0, len(open))
		for i := range open {
			if open[i].given < open[i].room {
				with = append(with, i)
			}
		}
		for ; n > 0; n-- {
			at := r.IntN(len(with))
			b := &open[with[at]]
			b.given++
			got[with[at]]++
			if b.given == b.room {
				with[at] = with[len(with)-1]
				with = with[:len(with)-1]
			}
		}
		return
	}
	h := heap{open: open, s: s}
	for i := range open {
		if open[i].given < open[i].room {
			h.items = append(h.items, item{open[i].score(s), i})
		}
	}
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
	for ; n > 0; n-- {
		b := &open[h.items[0].at]
		b.given++
		got[h.items[0].at]++
		if b.given == b.room {
			h.items[0] = h.items[len(h.items)-1]
			h.items = h.items[:len(h.items)-1]
		} else {
			h.items[0].score = b.score(s)
		}
		h.down(0)
	}
}

// score is how much a worker is in use, in millionths, with what it was given in this round.
func (b *bin) score(s Strategy) int64 {
	ratio := b.ratio()
	if s != SystemLoad || !b.w.Load.Known {
		return ratio
	}
	// Three parts of ten are the slots: two hosts that idle take turns.
	busy := int64(b.w.Load.Busy + perSlot*(b.w.Load.Since+b.given))
	return (7*busy + 3*ratio) / 10
}

// ratio is the share in use of what the worker is shortest of: slots, memory or cpu.
func (b *bin) ratio() int64 {
	w, used, given := b.w, int64(b.used+b.given), int64(b.given)
	most := int64(0)
	if !w.Dynamic && w.Slots > 0 {
		most = used * million / int64(w.Slots)
	}
	if t := w.Total.Memory >> 10; t > 0 {
		most = max(most, (b.taken.Memory+given*b.per.Memory)>>10*million/t)
	}
	if t := int64(w.Total.MilliCPU); t > 0 {
		most = max(most, (int64(b.taken.MilliCPU)+given*int64(b.per.MilliCPU))*million/t)
	}
	return most
}

// heap has the least used worker first.
type heap struct {
	open  []bin
	s     Strategy
	items []item
}

type item struct {
	score int64
	at    int
}

// less: ties go to the worker that was given less, then they take turns by the seed.
func (h *heap) less(x, y item) bool {
	if x.score != y.score {
		return x.score < y.score
	}
	a, b := &h.open[x.at], &h.open[y.at]
	if a.given != b.given {
		return a.given < b.given
	}
	return a.rank < b.rank
}

func (h *heap) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h.items); c++ {
			if h.less(h.items[c], h.items[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		h.items[i], h.items[least] = h.items[least], h.items[i]
		i = least
	}
}
