package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"strait/cmd/internal/ops"
	"strait/coordinator/api/client"
	"strait/kv"
	"strait/kv/record"
	"strait/plan/state"
	"strait/plan/units"
)

// From where on something is odd, or bad.
const (
	slowEtcd      = 500 * time.Millisecond // a linearizable read
	skewOdd       = time.Second            // between two clocks: times in logs and deadlines of drains are off
	skewBad       = time.Minute
	fillOdd       = 0.8 // of the store's quota
	fillBad       = 0.95
	pendingLong   = 5 * time.Minute
	listedAtMost  = 20 // findings of one kind
	askedAtOnce   = 32
	askMemberTime = 5 * time.Second
)

// checkEtcd looks at what each endpoint said.
func checkEtcd(f *findings, all []kv.Health) {
	clusters := map[uint64]bool{}
	for _, h := range all {
		if h.Cluster != 0 {
			clusters[h.Cluster] = true
		}
		known := fmt.Sprintf("member %x, version %s", h.Member, h.Version)
		switch {
		case h.Err != nil && h.Member == 0:
			f.bad("etcd", h.Endpoint, "start it, or take it off --etcd-endpoints", "%v", h.Err)
		case h.Err != nil && h.Leader == 0:
			f.bad("etcd", h.Endpoint, "bring a majority of the members back; see the log of etcd", "%s: it knows of no leader, nothing is served", known)
		case h.Err != nil:
			f.bad("etcd", h.Endpoint, "see the log of etcd", "%s: %v", known, h.Err)
		case h.Learner:
			f.odd("etcd", h.Endpoint, "promote it, or take it off --etcd-endpoints", "%s: a learner, which serves no client", known)
		case h.Latency > slowEtcd:
			f.odd("etcd", h.Endpoint, "look at the disk and the load of its host", "%s, a read took %v", known, round(h.Latency))
		default:
			role := "follows"
			if h.Leader == h.Member {
				role = "leads"
			}
			f.fine("etcd", h.Endpoint, "%s, %s, a read took %v", known, role, round(h.Latency))
		}
	}
	if len(clusters) > 1 {
		f.bad("etcd", "", "name the members of one cluster", "the endpoints belong to %d clusters", len(clusters))
	}
	checkStore(f, all)
}

// checkStore looks at size, quota and alarms, of each member that answered.
func checkStore(f *findings, all []kv.Health) {
	seen := map[uint64]bool{}
	for _, h := range all {
		if h.Member == 0 || seen[h.Member] {
			continue
		}
		seen[h.Member] = true
		for _, a := range h.Alarms {
			f.bad("store", h.Endpoint, "free space (compact, defragment, raise the quota), then `etcdctl alarm disarm`", "alarm: %s", a)
		}
		size := fmt.Sprintf("%s, %s of it in use", units.FormatBytes(h.Size), units.FormatBytes(h.Used))
		if h.Quota <= 0 {
			f.fine("store", h.Endpoint, "%s", size)
			continue
		}
		fill := float64(h.Size) / float64(h.Quota)
		text := fmt.Sprintf("%s, %.0f %% of the quota of %s", size, 100*fill, units.FormatBytes(h.Quota))
		do := "defragment it (etcdctl defrag): the file holds much that is free"
		if 2*h.Used > h.Size {
			do = "raise the quota, shorten what is kept of ended jobs, or see who else writes there"
		}
		switch {
		case fill >= fillBad:
			f.bad("store", h.Endpoint, do, "%s", text)
		case fill >= fillOdd:
			f.odd("store", h.Endpoint, do, "%s", text)
		default:
			f.fine("store", h.Endpoint, "%s", text)
		}
	}
}

// member is a process of the fleet and what it answered.
type member struct {
	role, name, addr string
	leads            bool
	worker           *client.Worker

	about *ops.About
	skew  ops.Skew
	err   error
}

func (m *member) key() string { return m.role + " " + m.name }

// askMembers asks every process who it is and what time it is there.
func askMembers(ctx context.Context, hc *ops.Client, all []*member) {
	free := make(chan struct{}, askedAtOnce)
	var g sync.WaitGroup
	for _, m := range all {
		g.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			if m.addr == "" {
				m.err = fmt.Errorf("its key names no operations address")
				return
			}
			ctx, cancel := context.WithTimeout(ctx, askMemberTime)
			defer cancel()
			if m.about, m.err = hc.About(ctx, m.addr); m.err == nil {
				m.skew, m.err = hc.Skew(ctx, m.addr)
			}
		})
	}
	g.Wait()
}

func checkLeader(f *findings, coordinators []client.Candidate) {
	if len(coordinators) == 0 {
		f.bad("leader", "", "start one: stctl serve coordinator", "no coordinator is there: what runs goes on, nothing is placed, recovered or ended")
		return
	}
	l := coordinators[0]
	f.fine("leader", l.Name, "leads since %s, %d stand by", l.Since.Local().Format(time.DateTime), len(coordinators)-1)
}

// checkAnswers looks whether each process answers as the one its key is about, and can work.
func checkAnswers(f *findings, all []*member) {
	fine := map[string][]string{}
	bad := newLimit(f)
	workers := 0
	for _, m := range all {
		if m.worker != nil {
			workers++
		}
		switch a := m.about; {
		case a == nil:
			bad.bad(m.role, m.name, "look at the process and at the network between it and this host", "%v", m.err)
		case a.Role != m.role || a.Name != m.name:
			bad.bad(m.role, m.name, "two processes were given one address; see --ops-listen", "%s answers as %s %s", m.addr, a.Role, a.Name)
		case a.NotReady != "":
			bad.bad(m.role, m.name, "see its log", "is not ready: %s", a.NotReady)
		case m.leads && !a.Leads:
			bad.odd(m.role, m.name, "ask again; should it stay so, see its log", "its key leads, itself it does not yet")
		case m.worker != nil && a.Incarnation != m.worker.Incarnation:
			bad.odd(m.role, m.name, "ask again; should it stay so, see its log", "it is incarnation %d, its key %d", a.Incarnation, m.worker.Incarnation)
		default:
			fine[m.role] = append(fine[m.role], m.name)
		}
	}
	for _, role := range []string{"coordinator", "worker"} {
		if names := fine[role]; len(names) > 0 {
			f.fine(role, "", "%d answer and are ready: %s", len(names), shortList(names))
		}
	}
	bad.end()
	if workers == 0 {
		f.odd("worker", "", "start one: stctl serve worker", "no worker is there, no job can run")
	}
}

// shortList is the first of many names.
func shortList(names []string) string {
	const most = 8
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

// limit keeps a kind of findings to the first few.
type limit struct {
	*findings
	before, most int
}

func newLimit(f *findings) *limit { return &limit{f, len(f.all), listedAtMost} }

// end cuts what came since.
func (l *limit) end() {
	more := len(l.all) - l.before - l.most
	if more <= 0 {
		return
	}
	worst := isOdd
	for _, x := range l.all[l.before+l.most:] {
		if x.Verdict == isBad {
			worst = isBad
		}
	}
	cut := finding{Check: l.all[l.before].Check, Verdict: worst, Found: fmt.Sprintf("… and %d more like that", more)}
	l.all = append(l.all[:l.before+l.most], cut)
}

// checkClocks compares clocks with that of this host. The fleet does not depend on them, people and deadlines do.
func checkClocks(f *findings, all []*member) {
	asked, most := 0, time.Duration(0)
	far := newLimit(f)
	for _, m := range all {
		if m.about == nil || m.err != nil {
			continue
		}
		asked++
		off := max(0, m.skew.Ahead.Abs()-m.skew.Within) // so much for sure
		most = max(most, off)
		direction := "ahead of"
		if m.skew.Ahead < 0 {
			direction = "behind"
		}
		const do = "run a time daemon (chrony, systemd-timesyncd) on every host"
		switch {
		case off > skewBad:
			far.bad("clock", m.key(), do, "%v %s this host", round(m.skew.Ahead.Abs()), direction)
		case off > skewOdd:
			far.odd("clock", m.key(), do, "%v %s this host", round(m.skew.Ahead.Abs()), direction)
		}
	}
	far.end()
	if asked > 0 && most <= skewOdd {
		f.fine("clock", "", "%d clocks within %v of this host's", asked, max(most.Round(time.Millisecond), time.Millisecond))
	}
}

// checkVersions looks at releases and protocols, by the keys and by what the processes say.
func checkVersions(f *findings, all []*member) {
	versions := map[string][]string{}
	protocol, common := [2]int{}, true
	for _, m := range all {
		var speaks [2]int
		switch {
		case m.about != nil:
			versions[m.about.Version] = append(versions[m.about.Version], m.key())
			speaks = m.about.Protocol
		case m.worker != nil:
			versions[m.worker.Worker.Version] = append(versions[m.worker.Worker.Version], m.key())
			speaks = m.worker.Worker.Protocol
		default:
			continue
		}
		if protocol == [2]int{} {
			protocol = speaks
			continue
		}
		protocol = [2]int{max(protocol[0], speaks[0]), min(protocol[1], speaks[1])}
		common = common && protocol[0] <= protocol[1]
	}
	if len(versions) == 0 {
		return
	}
	if !common {
		f.bad("version", "", "bring all of them to one release", "there is no protocol that all of them speak")
	}
	if len(versions) == 1 {
		f.fine("version", "", "all are %s, protocol %s; this stctl is %s", slices.Collect(maps.Keys(versions))[0], protocolText(protocol), Version)
		return
	}
	var parts []string
	for _, v := range slices.Sorted(maps.Keys(versions)) {
		parts = append(parts, fmt.Sprintf("%s: %s", v, shortList(versions[v])))
	}
	f.odd("version", "", "bring all of them to one release; a mix is for the time of an upgrade", "%s", strings.Join(parts, "; "))
}

// checkStorage compares the folder of checkpoint files as everybody sees it with that of the leader.
func checkStorage(f *findings, all []*member) {
	var lead *member
	for _, m := range all {
		if m.leads {
			lead = m
		}
	}
	if lead == nil || lead.about == nil || lead.about.Storage == nil {
		return // told already
	}
	own := lead.about.Storage
	if own.Mark == "" {
		f.bad("storage", lead.key(), "see --checkpoint-dir", "%s: %s", own.Path, own.Problem)
		return
	}
	same := 0
	other := newLimit(f)
	for _, m := range all {
		if m == lead || m.about == nil || m.about.Storage == nil {
			continue
		}
		const do = "mount one folder on all hosts and name it with --checkpoint-dir; until then jobs with much state fail"
		switch s := m.about.Storage; {
		case s.Mark == own.Mark:
			same++
		case s.Mark == "":
			other.odd("storage", m.key(), do, "%s", s.Problem)
		default:
			other.odd("storage", m.key(), do, "%s is not the folder that the leader calls %s", s.Path, own.Path)
		}
	}
	if len(f.all) == other.before {
		f.fine("storage", "", "%s is the same folder for the leader and %d others", own.Path, same)
	}
	other.end()
}

// checkDrains shows which workers take no work, and wishes that nobody reads.
func checkDrains(f *findings, workers []client.Worker, wishes map[string]string, now time.Time) {
	there := map[string]bool{}
	for i := range workers {
		w := &workers[i]
		there[w.Name] = true
		if w.Worker.Leaving {
			f.odd("drain", w.Name, "", "leaves, with %d slots in use", w.Used)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wishes)) {
		word, until, err := record.ParseWorkerWish([]byte(wishes[name]))
		switch {
		case err != nil:
			f.odd("drain", name, "write it anew: stctl worker drain or undrain", "%v", err)
		case word == record.WorkerActive:
		case !there[name]:
			f.odd("drain", name, "when it comes back it takes no work until `stctl worker undrain "+name+"`", "is drained and not there")
		default:
			text := "takes no new work"
			if !until.IsZero() && until.After(now) {
				text += "; what runs there is moved at " + until.Format(time.RFC3339)
			}
			f.odd("drain", name, "`stctl worker undrain "+name+"` when it shall work again", "%s", text)
		}
	}
}

// checkJobs lists the jobs that somebody should look at, those that fail first.
func checkJobs(f *findings, jobs []client.Job, now time.Time) {
	living := 0
	var found []finding
	for i := range jobs {
		j := &jobs[i]
		s := j.Status
		if s != nil && s.Phase.Terminal() || j.Archived {
			continue
		}
		living++
		see := fmt.Sprintf("stctl job describe %s", j.ID)
		add := func(v verdict, format string, args ...any) {
			found = append(found, finding{"jobs", string(j.ID), v, fmt.Sprintf("%s: ", j.Name()) + fmt.Sprintf(format, args...), see})
		}
		switch {
		case j.Problem != "":
			add(isBad, "%s", j.Problem)
		case s == nil:
			if now.Sub(j.Submitted()) > pendingLong {
				add(isBad, "no coordinator has taken it for %s", age(now, j.Submitted()))
			}
		case s.Phase == state.JobFailing:
			add(isBad, "%s: %s", s.Phase, firstLine(s.Message))
		case s.Phase == state.JobRestarting:
			add(isOdd, "%s: %s", s.Phase, firstLine(s.Message))
		case s.Phase == state.JobPending && now.Sub(j.Submitted()) > pendingLong:
			add(isOdd, "%s for %s: %s", s.Phase, age(now, j.Submitted()), firstLine(s.Message))
		default:
			for _, c := range s.Conditions {
				if c.Status {
					add(isOdd, "%s: %s", c.Type, firstLine(c.Message))
				}
			}
		}
	}
	sort.SliceStable(found, func(i, k int) bool { return found[i].Verdict == isBad && found[k].Verdict != isBad })
	at := newLimit(f)
	f.all = append(f.all, found...)
	at.end()
	if len(found) == 0 {
		f.fine("jobs", "", "%d have not ended, none needs a look", living)
	}
}
