package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	logSort   = 300 * time.Millisecond // lines of several processes wait so long for each other
	logSpace  = 1 << 20                // bytes of lines that wait
	logLook   = 2 * time.Second        // between two looks at who is there
	logGrace  = time.Second            // for last words, once the job has ended
	logAgain  = time.Second            // between two tries at a process that does not answer
	logAsked  = 10 * time.Second       // … and at one whose other port is followed
	logLatest = 10 * time.Second       // for the rest of a log at the end
)

// follow prints what comes, from every process that is there or joins, until `ended` returns or ctx ends. A process
// that leaves is dropped; what it said last and nobody read is gone with it.
func (r *logReader) follow(ctx context.Context, find func(context.Context) ([]logSource, error), ended func(context.Context) error) error {
	streams, stop := context.WithCancel(ctx)
	f := &logFollower{r: r, lines: make(chan arrived, 256), said: make(chan string, 16), open: map[logSource]context.CancelFunc{}, followed: map[string]bool{}}
	defer f.wg.Wait()
	defer stop()
	found, over := make(chan []logSource, 1), make(chan error, 1)
	f.wg.Go(func() { over <- ended(streams) })
	f.wg.Go(func() { look(streams, find, found) })
	outcome, err := f.loop(ctx, streams, found, over)
	if err != nil {
		return err
	}
	// The job has ended. What is under way is printed, then the rest that the processes have.
	stop()
	if err := f.drain(); err != nil {
		return err
	}
	rest, cancel := context.WithTimeout(ctx, logLatest)
	defer cancel()
	if err := r.history(rest, slices.Collect(maps.Keys(f.open))); err != nil && ctx.Err() == nil && errors.Is(err, errPrint) {
		return err
	}
	return outcome
}

// errPrint: standard output takes nothing any more.
var errPrint = errors.New("the log cannot be printed")

// look sends who is there, now and then. An etcd that is away changes nothing.
func look(ctx context.Context, find func(context.Context) ([]logSource, error), found chan<- []logSource) {
	tick := time.NewTicker(logLook)
	defer tick.Stop()
	for {
		if s, err := find(ctx); err == nil {
			select {
			case found <- s:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// logFollower has the streams of a follow. Its fields belong to the loop but for what mu guards.
type logFollower struct {
	r       *logReader
	lines   chan arrived
	said    chan string
	wg      sync.WaitGroup
	open    map[logSource]context.CancelFunc
	waiting []arrived // by arrival
	bytes   int

	mu       sync.Mutex
	followed map[string]bool // processes; one with two ports is followed once
}

type arrived struct {
	logLine
	when time.Time
}

// loop runs until a while after `over` has an outcome, which it returns.
func (f *logFollower) loop(ctx, streams context.Context, found <-chan []logSource, over <-chan error) (outcome, err error) {
	tick := time.NewTicker(logSort / 3)
	defer tick.Stop()
	var last <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil, errors.Join(f.flush(time.Now()), ctx.Err())
		case l := <-f.lines:
			f.waiting = append(f.waiting, l)
			if f.bytes += len(l.Line); f.bytes > logSpace {
				err = f.flush(time.Now())
			}
		case text := <-f.said:
			f.r.once(text)
		case now := <-tick.C:
			err = f.flush(now.Add(-logSort))
		case sources := <-found:
			f.adopt(streams, sources)
		case outcome = <-over:
			over, last = nil, time.After(logGrace)
		case <-last:
			return outcome, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// adopt starts what is new and ends what is gone.
func (f *logFollower) adopt(ctx context.Context, sources []logSource) {
	there := map[logSource]bool{}
	for _, s := range sources {
		there[s] = true
		if f.open[s] == nil {
			sctx, cancel := context.WithCancel(ctx)
			f.open[s] = cancel
			f.wg.Go(func() { f.stream(sctx, s) })
		}
	}
	for s, cancel := range f.open {
		if !there[s] {
			cancel()
			delete(f.open, s)
			f.r.once(fmt.Sprintf("%s has left", s))
		}
	}
}

// stream follows one process until it is no longer there.
func (f *logFollower) stream(ctx context.Context, s logSource) {
	for ctx.Err() == nil {
		pause := logAgain
		switch err := f.read(ctx, s); {
		case errors.Is(err, errFollowed):
			pause = logAsked
		case err != nil && ctx.Err() == nil:
			select {
			case f.said <- fmt.Sprintf("%s: %v; trying again", s, err):
			case <-ctx.Done():
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// errFollowed: another port of the process is followed.
var errFollowed = errors.New("followed already")

// read follows one stream to its end.
func (f *logFollower) read(ctx context.Context, s logSource) error {
	st, err := f.r.open(ctx, s, true)
	if err != nil {
		return err
	}
	defer st.Close()
	f.mu.Lock()
	taken := f.followed[st.Process]
	f.followed[st.Process] = true
	f.mu.Unlock()
	if taken {
		return errFollowed
	}
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.followed, st.Process)
	}()
	line := liner(s, st)
	for {
		rec, err := st.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case f.lines <- arrived{line(rec), time.Now()}:
		case <-ctx.Done():
			return nil
		}
		f.r.saw(st.Process, rec)
	}
}

// flush prints, by time, the lines that arrived up to then, and those that belong before one of them.
func (f *logFollower) flush(until time.Time) error {
	due := 0
	var latest time.Time
	for due < len(f.waiting) && !f.waiting[due].when.After(until) {
		if at := f.waiting[due].at; at.After(latest) {
			latest = at
		}
		due++
	}
	if due == 0 {
		return nil
	}
	out, rest := slices.Clone(f.waiting[:due]), f.waiting[:0]
	for _, l := range f.waiting[due:] {
		if l.at.Before(latest) {
			out = append(out, l)
		} else {
			rest = append(rest, l)
		}
	}
	f.waiting = rest
	slices.SortStableFunc(out, func(a, b arrived) int { return a.at.Compare(b.at) })
	for _, l := range out {
		f.bytes -= len(l.Line)
		if err := f.r.show(l.logLine); err != nil {
			return err
		}
	}
	return nil
}

// drain prints what arrives until every stream has ended, which they have been told to.
func (f *logFollower) drain() error {
	done := make(chan struct{})
	go func() { f.wg.Wait(); close(done) }()
	for ended := false; ; {
		select {
		case l := <-f.lines:
			f.waiting = append(f.waiting, l)
			continue
		case <-f.said:
			continue
		default:
		}
		if ended {
			return f.flush(time.Now())
		}
		select {
		case l := <-f.lines:
			f.waiting = append(f.waiting, l)
		case <-f.said:
		case <-done:
			ended = true
		}
	}
}
