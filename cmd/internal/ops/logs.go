package ops

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"strait/plan"
)

// Bounds of what is kept of the log.
const (
	DefaultLogBytes = 8 << 20 // for all jobs together
	leastShare      = 8 << 10 // so much of it is there for each job; with more jobs the longest quiet one goes
	mostValue       = 4 << 10 // of one attribute, longer ones are cut
	mostRecord      = 32 << 10
	entryOverhead   = 96 // what an entry takes beside its bytes
)

// Logs keeps the newest log records of each job in memory, within one bound in bytes, and hands them to whoever
// reads them over the operations port. Safe for concurrent use.
//
// Fairness: when the memory is full the job that takes most of it gives its oldest record, so a job that logs much
// pushes out its own records and not those of others; where there are more jobs than shares, the job that has been
// quiet for longest goes as a whole.
type Logs struct {
	process string
	bytes   int

	encode sync.Mutex // held while line is being written
	line   bytes.Buffer

	mu      sync.Mutex
	seq     uint64
	used    int
	jobs    map[string]*jobLog
	largest largest
	recent  *jobLog // the ring of jobs by their last record: recent.older … is the newest but one
	changed chan struct{}
}

// jobLog is the newest records of a job, the oldest first.
type jobLog struct {
	job          string
	entries      []entry
	used         int
	lost         uint64 // number of the newest record that was pushed out
	at           int    // in the heap
	older, newer *jobLog
}

type entry struct {
	seq   uint64
	at    time.Time
	level slog.Level
	line  []byte // a JSON object and a line feed; not changed any more
}

func (e *entry) size() int { return len(e.line) + entryOverhead }

// NewLogs keeps up to size bytes; 0: DefaultLogBytes.
func NewLogs(size int) *Logs {
	if size <= 0 {
		size = DefaultLogBytes
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	return &Logs{process: hex.EncodeToString(id[:]), bytes: size, jobs: map[string]*jobLog{}, changed: make(chan struct{})}
}

// Process names this life of the process: two ports that answer with the same one have the same records.
func (l *Logs) Process() string { return l.process }

// Handler passes records on to next and keeps those that carry a job, from the level `least` on also where next does
// not want them.
func (l *Logs) Handler(next slog.Handler, least slog.Level) slog.Handler {
	enc := slog.NewJSONHandler(&l.line, &slog.HandlerOptions{Level: slog.LevelDebug - 100, ReplaceAttr: shorten})
	return &keeper{logs: l, next: next, enc: enc, least: least}
}

// shorten cuts the values of attributes; an error of a plugin may hold a whole statement.
func shorten(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(cut(a.Value.String()))
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case error:
			a.Value = slog.StringValue(cut(v.Error()))
		case fmt.Stringer:
			a.Value = slog.StringValue(cut(v.String()))
		}
	}
	return a
}

func cut(s string) string {
	if len(s) <= mostValue {
		return s
	}
	n := mostValue
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return fmt.Sprintf("%s… (%d bytes)", s[:n], len(s))
}

// keeper is the slog.Handler of Logs.
type keeper struct {
	logs  *Logs
	next  slog.Handler
	enc   slog.Handler
	least slog.Level
	job   string
	group bool // attributes from here on are inside a group
}

func (k *keeper) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= k.least || k.next.Enabled(ctx, level)
}

func (k *keeper) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *k
	c.next, c.enc = k.next.WithAttrs(attrs), k.enc.WithAttrs(attrs)
	if !k.group {
		for _, a := range attrs {
			if a.Key == plan.LogJob {
				c.job = a.Value.Resolve().String()
			}
		}
	}
	return &c
}

func (k *keeper) WithGroup(name string) slog.Handler {
	if name == "" {
		return k
	}
	c := *k
	c.next, c.enc, c.group = k.next.WithGroup(name), k.enc.WithGroup(name), true
	return &c
}

func (k *keeper) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= k.least {
		k.keep(ctx, r)
	}
	if !k.next.Enabled(ctx, r.Level) {
		return nil
	}
	return k.next.Handle(ctx, r)
}

func (k *keeper) keep(ctx context.Context, r slog.Record) {
	job := k.job
	if !k.group {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == plan.LogJob {
				job = a.Value.Resolve().String()
			}
			return true
		})
	}
	if job == "" || plan.CheckName("job", job) != nil {
		return
	}
	l := k.logs
	l.encode.Lock()
	defer l.encode.Unlock()
	l.line.Reset()
	if k.enc.Handle(ctx, r) != nil || l.line.Len() > mostRecord {
		l.line.Reset()
		short := slog.NewRecord(r.Time, r.Level, cut(r.Message), 0)
		short.Add(plan.LogJob, job, "cut", "the record was too long to be kept")
		_ = slog.NewJSONHandler(&l.line, nil).Handle(ctx, short)
	}
	// In the order of their numbers, hence under the same lock.
	l.add(job, r.Time, r.Level, bytes.Clone(l.line.Bytes()))
}

// add keeps a line and pushes out what no longer fits.
func (l *Logs) add(job string, at time.Time, level slog.Level, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.jobs[job]
	if j == nil {
		j = &jobLog{job: job}
		l.jobs[job] = j
		heap.Push(&l.largest, j)
	} else {
		l.unlink(j)
	}
	l.link(j)
	l.seq++
	e := entry{seq: l.seq, at: at, level: level, line: line}
	j.entries = append(j.entries, e)
	j.used += e.size()
	l.used += e.size()
	heap.Fix(&l.largest, j.at)
	for len(l.jobs) > 1 && len(l.jobs)*leastShare > l.bytes {
		l.forget(l.recent.newer) // the ring closes: behind the newest stands the one that was quiet for longest
	}
	for l.used > l.bytes && l.used > e.size() {
		l.pushOut(l.largest[0])
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// link makes j the one with the newest record.
func (l *Logs) link(j *jobLog) {
	if l.recent == nil {
		j.older, j.newer = j, j
	} else {
		j.older, j.newer = l.recent, l.recent.newer
		j.older.newer, j.newer.older = j, j
	}
	l.recent = j
}

func (l *Logs) unlink(j *jobLog) {
	if l.recent == j {
		if l.recent = j.older; l.recent == j {
			l.recent = nil
		}
	}
	j.older.newer, j.newer.older = j.newer, j.older
}

func (l *Logs) forget(j *jobLog) {
	l.unlink(j)
	heap.Remove(&l.largest, j.at)
	delete(l.jobs, j.job)
	l.used -= j.used
}

// pushOut drops the oldest record of a job.
func (l *Logs) pushOut(j *jobLog) {
	e := &j.entries[0]
	j.lost = e.seq
	j.used -= e.size()
	l.used -= e.size()
	*e = entry{}
	if j.entries = j.entries[1:]; len(j.entries) == 0 {
		l.forget(j)
		return
	}
	heap.Fix(&l.largest, j.at)
}

// read gives the records of a job behind number after, at most so many bytes; whether records between them were
// pushed out; and what is closed when there are more.
func (l *Logs) read(job string, after uint64, most int) (out []entry, lost bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.jobs[job]
	if j == nil {
		return nil, false, l.changed
	}
	from, to := 0, len(j.entries)
	for from < to {
		if m := (from + to) / 2; j.entries[m].seq <= after {
			from = m + 1
		} else {
			to = m
		}
	}
	for _, e := range j.entries[from:] {
		if most -= e.size(); most < 0 && len(out) > 0 {
			break
		}
		out = append(out, e)
	}
	return out, j.lost > after, l.changed
}

// largest is a heap of jobs, the one that takes most on top.
type largest []*jobLog

func (h largest) Len() int           { return len(h) }
func (h largest) Less(i, k int) bool { return h[i].used > h[k].used }
func (h largest) Swap(i, k int)      { h[i], h[k] = h[k], h[i]; h[i].at, h[k].at = i, k }
func (h *largest) Push(x any) {
	j := x.(*jobLog)
	j.at = len(*h)
	*h = append(*h, j)
}

func (h *largest) Pop() any {
	old := *h
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return j
}
