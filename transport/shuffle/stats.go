package shuffle

import (
	"cmp"
	"slices"
	"time"

	"strait/transport/stream"
)

// Stats are sums over the life of a service, and what is open now.
type Stats struct {
	Attempts int   // open
	Reserved int64 // bytes that consumers have reserved for rows
	BytesIn  int64 // received from peers, as on the wire
	BytesOut int64 // sent to peers
}

// Stats reads the counters.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{Attempts: len(s.attempts), Reserved: s.budget.Used(), BytesIn: s.bytesIn.Load(), BytesOut: s.bytesOut.Load()}
	for _, a := range s.attempts {
		if a.budget != s.budget {
			st.Reserved += a.budget.Used()
		}
	}
	return st
}

// LinkStats are the counters of both connections of an attempt with one peer.
type LinkStats struct {
	Key        stream.AttemptKey
	Peer       string
	BytesIn    int64 // as on the wire, small frames included
	BytesOut   int64
	FramesIn   int64 // data frames
	FramesOut  int64
	CreditWait time.Duration // producers waited for credit or for room in the queue, summed over them
	Queued     int64         // bytes of data frames that wait to be sent
}

// Links reads the counters of every link of the attempts that are open, in order of attempt and peer.
func (s *Service) Links() []LinkStats {
	s.mu.Lock()
	var open []*Attempt
	for _, a := range s.attempts {
		open = append(open, a)
	}
	s.mu.Unlock()
	var out []LinkStats
	for _, a := range open {
		for peer, o := range a.outs {
			in := a.ins[peer]
			o.mu.Lock()
			frames, queued := o.frames, o.queued
			o.mu.Unlock()
			out = append(out, LinkStats{Key: a.cfg.Key, Peer: peer,
				BytesIn: o.bytes.in.Load() + in.bytes.in.Load(), BytesOut: o.bytes.out.Load() + in.bytes.out.Load(),
				FramesIn: in.received.Load(), FramesOut: frames, CreditWait: time.Duration(o.waited.Load()), Queued: queued})
		}
	}
	slices.SortFunc(out, func(x, y LinkStats) int {
		return cmp.Or(cmp.Compare(x.Key.Job, y.Key.Job), cmp.Compare(x.Key.Pipeline, y.Key.Pipeline), cmp.Compare(x.Peer, y.Peer))
	})
	return out
}
