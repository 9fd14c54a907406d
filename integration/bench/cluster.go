package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"strait/coordinator/api/client"
	"strait/kv"
	"strait/kv/keys"
	"strait/kv/record"
	"strait/plan"
	"strait/plan/state"
)

// cluster is a fleet of real processes on loopback: coordinators, the first one with its embedded etcd or all on an
// etcd elsewhere, and workers.
type cluster struct {
	dir   string
	etcd  string
	procs map[string]*proc
	order []string
	store *kv.Store
	cl    *client.Client
	tree  keys.Tree
}

// proc is one role.
type proc struct {
	name string
	cmd  *exec.Cmd
	out  string // file of its output
	ops  string // host:port
	done chan struct{}
}

// clusterSpec says what a cluster is made of.
type clusterSpec struct {
	workers, slots int
	etcd           string // host:port of an etcd that is there already; "": embedded in c1
	coordinator    []string
	worker         []string
}

// startCluster starts c1, then the workers, and waits until all are ready.
func startCluster(ctx context.Context, spec clusterSpec) (*cluster, error) {
	c := &cluster{procs: map[string]*proc{}, tree: keys.New("")}
	var err error
	if c.dir, err = os.MkdirTemp("", "strait-bench-"); err != nil {
		return nil, err
	}
	if err := c.start(ctx, spec); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *cluster) start(ctx context.Context, spec clusterSpec) error {
	if err := c.coordinator("c1", spec); err != nil {
		return err
	}
	told, err := c.ready(ctx, "c1")
	if err != nil {
		return err
	}
	m := regexp.MustCompile(`etcd (\S+?),`).FindStringSubmatch(told)
	if m == nil {
		return fmt.Errorf("the coordinator does not say where its etcd is: %q", told)
	}
	c.etcd = m[1]
	for i := range spec.workers {
		if err := c.run(workerName(i), append([]string{"serve", "worker", "--name", workerName(i), "--etcd-endpoints", c.etcd,
			"--slots", fmt.Sprint(spec.slots), "--data-dir", filepath.Join(c.dir, workerName(i))}, spec.worker...)); err != nil {
			return err
		}
	}
	for i := range spec.workers {
		if _, err := c.ready(ctx, workerName(i)); err != nil {
			return err
		}
	}
	if c.store, err = kv.Open(ctx, kv.Config{Endpoints: []string{c.etcd}}); err != nil {
		return err
	}
	c.cl = client.New(c.store, c.tree)
	return nil
}

func workerName(i int) string { return fmt.Sprintf("w%d", i+1) }

// coordinator starts one without waiting for it.
func (c *cluster) coordinator(name string, spec clusterSpec) error {
	args := []string{"serve", "coordinator", "--name", name, "--data-dir", filepath.Join(c.dir, "c1")}
	if spec.etcd != "" {
		args = append(args, "--etcd-endpoints", spec.etcd)
	} else {
		args = append(args, "--etcd-listen", "127.0.0.1:0")
	}
	return c.run(name, append(args, spec.coordinator...))
}

func (c *cluster) run(name string, args []string) error {
	bin, err := binary()
	if err != nil {
		return err
	}
	p := &proc{name: name, cmd: exec.Command(bin, args...), out: filepath.Join(c.dir, name+".out"), done: make(chan struct{})}
	out, err := os.Create(p.out)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() { // stop waits for it
		_ = p.cmd.Wait()
		close(p.done)
	}()
	c.procs[name] = p
	c.order = append(c.order, name)
	return nil
}

var readyLine = regexp.MustCompile(`(?m)^(?:coordinator|worker) \S+ ready: (.*)$`)

// ready waits until a role says so and gives what it says of its addresses.
func (c *cluster) ready(ctx context.Context, name string) (string, error) {
	p := c.procs[name]
	var told string
	err := await(ctx, name+" to be ready", func() (bool, error) {
		said, err := os.ReadFile(p.out)
		if err != nil {
			return false, err
		}
		if m := readyLine.FindSubmatch(said); m != nil {
			told = string(m[1])
			_, p.ops, _ = strings.Cut(told, "ops ")
			return true, nil
		}
		if p.gone() {
			return false, fmt.Errorf("%s ended while it started:\n%s", name, said)
		}
		return false, nil
	})
	return told, err
}

func (p *proc) gone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// await polls until ok says so, every few milliseconds.
func await(ctx context.Context, what string, ok func() (bool, error)) error {
	tick := time.NewTicker(3 * time.Millisecond)
	defer tick.Stop()
	for {
		if done, err := ok(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// kill ends a role at once, as a crash does.
func (c *cluster) kill(name string) error {
	err := c.procs[name].cmd.Process.Kill()
	<-c.procs[name].done
	return err
}

// stop ends all roles: workers first, then coordinators.
func (c *cluster) stop() {
	if c.store != nil {
		_ = c.store.Close()
	}
	for i := len(c.order) - 1; i >= 0; i-- {
		p := c.procs[c.order[i]]
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(15 * time.Second):
			_ = p.cmd.Process.Kill()
			<-p.done
		}
	}
	for _, name := range c.order {
		said, _ := os.ReadFile(c.procs[name].out)
		if m := alarming.Find(said); m != nil {
			Alarms = append(Alarms, fmt.Sprintf("%s: %s", name, said[bytes.Index(said, m):]))
		}
	}
	if os.Getenv("STRAIT_BENCH_KEEP") == "" {
		_ = os.RemoveAll(c.dir)
	}
}

// Alarms is what roles said that none may ever say, of all clusters that have stopped.
var Alarms []string

var alarming = regexp.MustCompile(`DATA RACE|panic:|BUG:`)

// explain adds to an error what the roles said. It is deferred behind stop.
func (c *cluster) explain(err *error) {
	if *err != nil {
		*err = fmt.Errorf("%w\n%s", *err, c.logs())
	}
}

// logs are the ends of what the roles said, for an error.
func (c *cluster) logs() string {
	var b strings.Builder
	for _, name := range c.order {
		said, _ := os.ReadFile(c.procs[name].out)
		fmt.Fprintf(&b, "--- %s\n%s", name, said[max(0, len(said)-4000):])
	}
	return b.String()
}

// metric is one sample of /metrics of a role, by name with its labels.
func (p *proc) metric(name string) (float64, error) {
	body, err := p.get("/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(strings.TrimSpace(rest), 64)
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", p.name, name)
}

var plainHTTP = &http.Client{Timeout: 40 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

func (p *proc) get(path string) (string, error) {
	resp, err := plainHTTP.Get("http://" + p.ops + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s%s: %s", p.name, path, resp.Status)
	}
	return string(body), err
}

// resident is what the kernel says of the memory of a process, in bytes: resident now, and the most so far; 0 once it
// has ended.
func resident(pid int) (rss, peak int64) {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			rss = kb << 10
		}
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 {
			peak = kb << 10
		}
	}
	return rss, peak
}

// memory is resident and the number of its file handles.
func (p *proc) memory() (rss, peak int64, files int, err error) {
	rss, peak = resident(p.cmd.Process.Pid)
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if rss == 0 {
		err = errors.Join(err, errors.New("no VmRSS in /proc status"))
	}
	return rss, peak, len(fds), err
}

// cpu is the processor time a process has used.
func (p *proc) cpu() (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	// Behind the name, which may hold blanks: utime and stime are fields 14 and 15, in hundredths of a second.
	_, rest, _ := strings.Cut(string(raw), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, fmt.Errorf("stat of %s: %q", p.name, raw)
	}
	u, _ := strconv.ParseInt(f[11], 10, 64)
	s, _ := strconv.ParseInt(f[12], 10, 64)
	return time.Duration(u+s) * 10 * time.Millisecond, nil
}

// submit puts a job.
func (c *cluster) submit(ctx context.Context, id, text string) (plan.JobID, error) {
	return c.cl.Submit(ctx, record.Spec{File: id + ".conf", Text: text}, plan.JobID(id))
}

// submitAll puts n jobs, 16 at a time, and gives how long each took in milliseconds.
func (c *cluster) submitAll(ctx context.Context, n int, job func(i int) (id, text string)) ([]float64, error) {
	took := make([]float64, n)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for i := range n {
		g.Go(func() error {
			began := time.Now()
			id, text := job(i)
			_, err := c.submit(gctx, id, text)
			took[i] = float64(time.Since(began)) / 1e6
			return err
		})
	}
	return took, g.Wait()
}

// settled waits until nobody has written for a while and gives the store's revision.
func (c *cluster) settled(ctx context.Context) (int64, error) {
	var last int64
	var since time.Time
	err := await(ctx, "nobody to write", func() (bool, error) {
		rev, err := c.store.Revision(ctx)
		if rev != last {
			last, since = rev, time.Now()
		}
		return time.Since(since) > 2*time.Second, err
	})
	return last, err
}

// startPair starts a cluster at an etcd that is there, with c2 standing by.
func startPair(ctx context.Context, spec clusterSpec) (*cluster, error) {
	c, err := startCluster(ctx, spec)
	if err != nil {
		return nil, err
	}
	if err = c.coordinator("c2", spec); err == nil {
		_, err = c.ready(ctx, "c2")
	}
	if err != nil {
		c.explain(&err)
		c.stop()
		return nil, err
	}
	return c, nil
}

// until waits for a phase; an end that is another one is an error.
func (c *cluster) until(ctx context.Context, id plan.JobID, want state.Job) (*record.JobStatus, error) {
	var last *record.JobStatus
	err := c.cl.Watch(ctx, id, func(u client.Update) error {
		if last = u.Status; last != nil && last.Phase == want {
			return client.ErrStop
		}
		return nil
	})
	if err == nil && (last == nil || last.Phase != want) {
		err = fmt.Errorf("job %s is %s and not %s: %s", id, last.Phase, want, last.Message)
	}
	return last, err
}

// taken is how many rows the sinks of a live job have taken, as the leader knows it.
func (c *cluster) taken(leader *proc, id plan.JobID) (int64, error) {
	body, err := leader.get("/counters/" + string(id))
	if err != nil {
		return 0, err
	}
	var all []record.VertexSummary
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		return 0, fmt.Errorf("counters of job %s: %w", id, err)
	}
	return sinkRows(all), nil
}

// sinkRows adds up what went into sinks: vertices named so by the plan.
func sinkRows(all []record.VertexSummary) (n int64) {
	for _, v := range all {
		if strings.HasPrefix(string(v.Vertex), "sink.") {
			n += v.RowsIn
		}
	}
	return n
}

// grouped counts the task groups of a job by their state, over all workers.
func (c *cluster) grouped(ctx context.Context, id plan.JobID) (map[state.Task]int, plan.Attempt, error) {
	d, err := c.cl.Describe(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	out, attempt := map[state.Task]int{}, plan.Attempt(0)
	for _, p := range d.Pipelines {
		if p.Word != nil {
			attempt = max(attempt, p.Word.Attempt)
		}
		for _, t := range p.Tasks {
			for _, g := range t.Groups {
				out[g.State] += g.Len()
			}
		}
	}
	return out, attempt, nil
}
