package embed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"

	"strait/plan/units"
)

const (
	maintainEvery = 5 * time.Second
	// maintainRest is the pause after a defragmentation: it stops this member for about a second per 100 MiB.
	maintainRest = time.Minute
	compactLimit = 30 * time.Second
)

// maintain keeps the database file small, until the server ends. etcd drops old revisions by itself
// (CompactionRetention) and uses their pages again, but never gives them back, and once the file has reached the
// quota it refuses writes until somebody compacts, defragments and takes the alarm back. Here that is done where it
// helps: when the live data are well below the quota.
func (s *Server) maintain(c Config) {
	tick := time.NewTicker(maintainEvery)
	defer tick.Stop()
	var rest time.Time
	for {
		select {
		case <-s.closing.Done():
			return
		case <-s.done:
			return
		case now := <-tick.C:
			if now.After(rest) && s.tidy(c) {
				rest = time.Now().Add(maintainRest)
			}
		}
	}
}

// worthwhile says whether defragmenting a file of size bytes, used of which are live, is worth its pause.
func worthwhile(size, used, quota int64) bool { return size > quota/2 && used < size/2 }

// tidy looks once; true: the database was defragmented.
func (s *Server) tidy(c Config) bool {
	srv := s.etcd.Server
	full := s.full()
	if full { // old revisions are worth less than writes; a watch that needs them lists again
		ctx, cancel := context.WithTimeout(s.closing, compactLimit)
		_, _ = srv.Compact(ctx, &etcdserverpb.CompactionRequest{Revision: srv.KV().Rev(), Physical: true})
		cancel()
	}
	size, used := srv.Backend().Size(), srv.Backend().SizeInUse()
	done := false
	if worthwhile(size, used, c.QuotaBytes) || full && used < size*9/10 {
		if err := srv.Backend().Defrag(); err != nil {
			c.Notice(fmt.Sprintf("the database is not defragmented: %v", err))
			return true
		}
		c.Notice(fmt.Sprintf("the database was defragmented from %s to %s, of %s", units.FormatBytes(size),
			units.FormatBytes(srv.Backend().Size()), units.FormatBytes(c.QuotaBytes)))
		done = true
	}
	if full && srv.Backend().Size() < c.QuotaBytes*9/10 {
		ctx, cancel := context.WithTimeout(s.closing, compactLimit)
		defer cancel()
		if _, err := srv.Alarm(ctx, &etcdserverpb.AlarmRequest{Action: etcdserverpb.AlarmRequest_DEACTIVATE,
			MemberID: uint64(srv.MemberID()), Alarm: etcdserverpb.AlarmType_NOSPACE}); err == nil {
			c.Notice("the database was full and takes writes again")
		}
	}
	return done
}

// full says whether this member has raised the alarm that its database reached the quota.
func (s *Server) full() bool {
	me := uint64(s.etcd.Server.MemberID())
	return slices.ContainsFunc(s.etcd.Server.Alarms(), func(a *etcdserverpb.AlarmMember) bool {
		return a.Alarm == etcdserverpb.AlarmType_NOSPACE && a.MemberID == me
	})
}
