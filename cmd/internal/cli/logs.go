package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/urfave/cli/v2"

	"strait/cmd/internal/ops"
	"strait/coordinator/api/client"
	"strait/plan"
)

// logSource is a process of the fleet that may have logged something of a job.
type logSource struct {
	role string // worker or coordinator
	name string
	ops  string
}

func (s logSource) String() string { return s.role + " " + s.name }

// logSources lists the coordinators, the leader first, and the live workers; only: those of that name.
func logSources(ctx context.Context, cl *client.Client, only string) ([]logSource, error) {
	ctx, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	coordinators, err := cl.Coordinators(ctx)
	if err != nil {
		return nil, err
	}
	workers, err := cl.Workers(ctx)
	if err != nil {
		return nil, err
	}
	var out []logSource
	add := func(role, name, ops string) {
		if ops != "" && (only == "" || only == name) {
			out = append(out, logSource{role, name, ops})
		}
	}
	for _, c := range coordinators {
		add("coordinator", c.Name, c.Ops)
	}
	for _, w := range workers {
		add("worker", w.Name, w.Worker.Ops)
	}
	return out, nil
}

// logLine is a record with where it is from.
type logLine struct {
	source logSource
	at     time.Time // by this host's clock, as far as it is known; never before the line ahead of it
	ops.Record
}

func logsOfJob(c *cli.Context) error {
	q := ops.Query{Level: slog.LevelDebug}
	if v := c.String("level"); v != "" {
		if err := q.Level.UnmarshalText([]byte(v)); err != nil {
			return failf("--level %s is not known; write debug, info, warn or error", v)
		}
	}
	var err error
	if q.Since, err = pointInTime("--since", c.String("since"), time.Now()); err != nil {
		return err
	}
	return withClient(func(c *cli.Context, ctx context.Context, cl *client.Client, form string) error {
		if c.NArg() != 1 {
			return failf("%s takes one job id; `stctl job list` shows them", c.Command.HelpName)
		}
		id, err := cl.ResolveID(ctx, c.Args().First())
		there := err == nil
		if errors.Is(err, client.ErrNoJob) && plan.CheckName("job", c.Args().First()) == nil {
			id, err = plan.JobID(c.Args().First()), nil // its keys are gone; what was logged may be there
		}
		if err != nil {
			return err
		}
		hc := ops.NewClient()
		defer hc.Close()
		r := &logReader{ask: hc, job: id, q: q, print: printer(c.App.Writer, form), told: map[string]bool{}, process: map[logSource]string{}, last: map[string]uint64{}, warn: func(format string, args ...any) {
			fmt.Fprintf(c.App.ErrWriter, format+"\n", args...)
		}}
		find := func(ctx context.Context) ([]logSource, error) { return logSources(ctx, cl, c.String("worker")) }
		sources, err := find(ctx)
		switch {
		case err != nil:
			return err
		case len(sources) == 0 && c.String("worker") != "":
			return failf("there is no worker and no coordinator %s; `stctl worker list` shows the workers", c.String("worker"))
		case len(sources) == 0:
			return failf("no process of the fleet is there to be asked; logs live as long as the processes that wrote them")
		}
		if err := r.history(ctx, sources); err != nil {
			return err
		}
		if c.Bool("follow") && there {
			err := r.follow(ctx, find, func(ctx context.Context) error {
				return cl.Watch(ctx, id, func(client.Update) error { return nil })
			})
			if errors.Is(err, context.Canceled) { // an interrupt is how it is left
				return nil
			}
			return err
		}
		switch {
		case r.printed > 0:
		case !there:
			return failf("job %s: %v, and no living process has logged anything of it", id, client.ErrNoJob)
		default:
			fmt.Fprintf(c.App.ErrWriter, "no living process of the fleet has logged anything like that of job %s\n", id)
		}
		return nil
	})(c)
}

// pointInTime reads a flag that is a time, or how long ago it was.
func pointInTime(flag, v string, now time.Time) (time.Time, error) {
	if v == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(v); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, v, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, failf("%s %s: write how long ago, like 30m or 24h, or a time, like %s", flag, v, now.UTC().Format(time.RFC3339))
}

// logReader reads the log of a job from many processes.
type logReader struct {
	ask   *ops.Client
	job   plan.JobID
	q     ops.Query
	print func(logLine) error
	warn  func(format string, args ...any)

	printed int             // lines
	told    map[string]bool // what was said once

	mu      sync.Mutex
	process map[logSource]string // who answered there last
	last    map[string]uint64    // number of the newest record that was read, by process
}

func (r *logReader) processOf(s logSource) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process[s]
}

func (r *logReader) setProcess(s logSource, process string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process[s] = process
}

func (r *logReader) seen(process string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[process]
}

func (r *logReader) saw(process string, rec ops.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last[process] = max(r.last[process], rec.Seq) // 0 where records were lost
}

// show prints a line, which ends its wait.
func (r *logReader) show(l logLine) error {
	if l.Lost {
		r.warn("%s: some records were pushed out of its memory before they could be read", l.source)
		return nil
	}
	r.printed++
	return r.print(l)
}

func (r *logReader) once(text string) {
	if !r.told[text] {
		r.told[text] = true
		r.warn("%s", text)
	}
}

// aheadEnough is from which difference on a clock is corrected for the order of lines; below it lies the round trip.
const aheadEnough = 500 * time.Millisecond

// liner makes lines of the records of one stream.
func liner(s logSource, st *ops.LogStream) func(ops.Record) logLine {
	var before time.Time
	return func(rec ops.Record) logLine {
		l := logLine{source: s, at: rec.Time, Record: rec}
		if st.Ahead.Abs() > aheadEnough {
			l.at = l.at.Add(-st.Ahead)
		}
		if l.at.Before(before) {
			l.at = before
		}
		before = l.at
		return l
	}
}

// open asks a process for what was not read of it yet.
func (r *logReader) open(ctx context.Context, s logSource, follow bool) (*ops.LogStream, error) {
	q := r.q
	q.Follow = follow
	for {
		q.After = r.seen(r.processOf(s))
		st, err := r.ask.Logs(ctx, s.ops, r.job, q)
		if err != nil {
			return nil, err
		}
		if r.setProcess(s, st.Process); r.seen(st.Process) == q.After {
			return st, nil
		}
		st.Close() // another life than was thought: its numbers are others
	}
}

// cursor stands in the stream of one process. A process that dropped its reader, who was slow, is asked again.
type cursor struct {
	r      *logReader
	source logSource
	stream *ops.LogStream
	line   func(ops.Record) logLine
	head   logLine // the next line
	tries  int
}

func (c *cursor) open(ctx context.Context) error {
	st, err := c.r.open(ctx, c.source, false)
	if err == nil {
		c.stream, c.line = st, liner(c.source, st)
	}
	return err
}

// next moves on; false at the end.
func (c *cursor) next(ctx context.Context) (bool, error) {
	for {
		rec, err := c.stream.Next()
		if err == nil {
			c.tries = 0
			c.r.saw(c.stream.Process, rec)
			c.head = c.line(rec)
			return true, nil
		}
		c.stream.Close()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if c.tries++; c.tries > 3 || ctx.Err() != nil {
			return false, err
		}
		if err := c.open(ctx); err != nil {
			return false, err
		}
	}
}

// history prints what there is, by time. Every process counts once, however many ports it has.
func (r *logReader) history(ctx context.Context, sources []logSource) error {
	const atOnce = 32
	opened := make([]*cursor, len(sources))
	failed := make([]error, len(sources))
	var g sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i, s := range sources {
		g.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()
			c := &cursor{r: r, source: s}
			if failed[i] = c.open(ctx); failed[i] == nil {
				opened[i] = c
			}
		})
	}
	g.Wait()
	var open []*cursor
	processes := map[string]bool{}
	defer func() {
		for _, c := range open {
			c.stream.Close()
		}
	}()
	bad := 0
	for i, c := range opened {
		switch {
		case c == nil:
			bad++
			r.once(fmt.Sprintf("%s: %v", sources[i], failed[i]))
		case processes[c.stream.Process]:
			c.stream.Close()
		default:
			processes[c.stream.Process] = true
			more, err := c.next(ctx)
			if err != nil {
				r.once(fmt.Sprintf("%s: %v", c.source, err))
			}
			if more {
				open = append(open, c)
			}
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if bad == len(sources) {
		return failf("none of %d processes of the fleet answers", bad)
	}
	for len(open) > 0 {
		first := 0
		for i, c := range open {
			if c.head.at.Before(open[first].head.at) {
				first = i
			}
		}
		c := open[first]
		if err := r.show(c.head); err != nil {
			return err
		}
		more, err := c.next(ctx)
		if err != nil {
			r.once(fmt.Sprintf("%s: %v", c.source, err))
		}
		if !more {
			open = append(open[:first], open[first+1:]...)
		}
	}
	return ctx.Err()
}

// printer prints lines as text or as JSON objects, each on its line.
func printer(w io.Writer, form string) func(logLine) error {
	return func(l logLine) error {
		var b bytes.Buffer
		if form == "json" {
			fmt.Fprintf(&b, `{"source":%q,"role":%q,`, l.source.name, l.source.role)
			b.Write(bytes.TrimPrefix(l.Line, []byte("{")))
		} else {
			b.WriteString(logText(l))
		}
		b.WriteByte('\n')
		if _, err := w.Write(b.Bytes()); err != nil {
			return fmt.Errorf("%w: %w", errPrint, err)
		}
		return nil
	}
}

// logText is a line for people: time, level, where, message, attributes. What is the same in all lines is left out.
func logText(l logLine) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-5s %s ", l.Time.Local().Format("2006-01-02T15:04:05.000"), l.Level, l.source.name)
	dec := json.NewDecoder(bytes.NewReader(l.Line))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		return b.String()
	}
	var rest strings.Builder
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			break
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			break
		}
		text := string(value)
		var s string
		if json.Unmarshal(value, &s) == nil {
			text = s
		}
		switch key {
		case "seq", slog.TimeKey, slog.LevelKey, plan.LogJob, "incarnation":
		case slog.MessageKey:
			b.WriteString(plainText(text))
		default:
			if key == plan.LogWorker && text == l.source.name {
				continue
			}
			fmt.Fprintf(&rest, " %s=%s", key, quoted(text))
		}
	}
	return b.String() + rest.String()
}

// plainText keeps control characters from the terminal.
func plainText(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	return strings.Trim(strconv.Quote(s), `"`)
}

func quoted(s string) string {
	if s == "" || strings.ContainsAny(s, " \"=") || strings.IndexFunc(s, unprintable) >= 0 {
		return strconv.Quote(s)
	}
	return s
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
