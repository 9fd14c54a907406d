package coordinator

import (
	"context"
	"fmt"
	"time"

	"strait/kv"
	"strait/plan/units"
)

const (
	storeEvery = 5 * time.Second // etcd is asked how full it is
	// nearFull is the share of the quota from which a store is nearly full.
	nearFull = 0.8
)

// watchStore asks etcd every few seconds how full it is, for the metrics of this coordinator, leading or not, and
// warns when it is nearly full. It reads only.
func (x *Coordinator) watchStore(ctx context.Context) {
	tick := time.NewTicker(storeEvery)
	defer tick.Stop()
	warned := false
	for {
		if s, err := x.c.Store.Status(ctx); err == nil { // one that is away is told by everybody else
			x.m.storeBytes.Store(s.Size)
			x.m.storeUsed.Store(s.Used)
			x.m.storeQuota.Store(s.Quota)
			near := storeNearFull(s)
			if near && !warned {
				x.c.Log.Warn("etcd is nearly full; delete what is not needed, defragment it, or raise its quota (etcd.quota of an embedded one): full, it takes no jobs and no checkpoints",
					"size", units.FormatBytes(s.Size), "in_use", units.FormatBytes(s.Used), "quota", units.FormatBytes(s.Quota), "share", fmt.Sprintf("%.0f%%", 100*storeShare(s)))
			}
			warned = near
			full := int64(0)
			if near {
				full = 1
			}
			x.m.storeNearFull.Store(full)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// storeShare is how much of the quota the database file takes, as etcd counts; 0 where the quota is not known.
func storeShare(s kv.Status) float64 {
	if s.Quota <= 0 {
		return 0
	}
	return float64(s.Size) / float64(s.Quota)
}

// storeNearFull says whether a store is nearly full, or full already.
func storeNearFull(s kv.Status) bool { return storeShare(s) >= nearFull }
