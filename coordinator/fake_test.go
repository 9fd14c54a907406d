package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"strait/checkpoint"
	"strait/coordinator/internal/workermodel"
	"strait/kv"
	"strait/kv/keys"
	"strait/kv/kvtest"
	"strait/kv/mirror"
	"strait/kv/record"
	"strait/kv/session"
	"strait/plan"
	"strait/plan/config"
	"strait/plan/logical"
	"strait/plan/option"
	"strait/plan/schema"
)

var tree = keys.New("")

// catalog has a source that ends or not and sinks of each kind.
type catalog struct{}

func (catalog) Lookup(s config.Section, name string) logical.Plugin {
	lenient := &option.Spec{Lenient: true}
	table := []*schema.Table{{Columns: []schema.Column{schema.Col("id", schema.Of(schema.String))}}}
	source := func(bounded bool) logical.Plugin {
		return logical.Plugin{Name: name, Standing: logical.InBuild, Options: lenient, Source: func(ctx context.Context, r logical.SourceRequest) (logical.SourceInfo, error) {
			if d := r.Options.Raw().Child("slow"); d != nil {
				<-ctx.Done()
				return logical.SourceInfo{}, ctx.Err()
			}
			return logical.SourceInfo{Tables: table, Bounded: bounded}, nil
		}}
	}
	sink := func(i logical.SinkInfo) logical.Plugin {
		return logical.Plugin{Name: name, Standing: logical.InBuild, Options: lenient, Sink: func(context.Context, logical.SinkRequest) (logical.SinkInfo, error) { return i, nil }}
	}
	switch string(s) + "." + name {
	case "source.In":
		return source(true)
	case "source.Endless":
		return source(false)
	case "sink.Out":
		return sink(logical.SinkInfo{Guarantee: "exactly once", TwoPhase: true})
	case "sink.Sum":
		return sink(logical.SinkInfo{Guarantee: "exactly once", Aggregated: true})
	case "sink.Print":
		return sink(logical.SinkInfo{Guarantee: "at least once"})
	case "sink.Upsert":
		return sink(logical.SinkInfo{Guarantee: "at least once, converging after the call limit"})
	}
	return logical.Plugin{Standing: logical.Unknown}
}

func catalogFor(string) logical.Catalog { return catalog{} }

// nowhere is a storage that has and takes nothing.
type nowhere struct{}

func (nowhere) Put(context.Context, string, []byte) (checkpoint.Handle, error) {
	return checkpoint.Handle{}, errors.New("no storage in this test")
}

func (nowhere) Stat(context.Context, checkpoint.Handle) error {
	return errors.New("no storage in this test")
}

// text is a job file: a source, a sink, a parallelism, and lines for env.
func text(source, sink string, parallelism int, env ...string) string {
	return fmt.Sprintf("env { parallelism = %d\njob.mode = BATCH\njob.retry.interval.seconds = 0\n%s }\nsource { %s { } }\nsink { %s { } }\n", parallelism, strings.Join(env, "\n"), source, sink)
}

// fakeWorker runs a workermodel over a real store.
type fakeWorker struct {
	t      *testing.T
	store  *kv.Store
	name   string
	slots  int
	shape  func(*record.Worker) // changes what it says of itself; nil: nothing
	labels map[string]string
	ops    string
	target *workermodel.Target
	hooks  workermodel.Hooks
	ttl    time.Duration
	limit  int

	mu     sync.Mutex
	inc    int64
	lease  int64
	cancel context.CancelFunc
	done   chan struct{}
	poke   chan struct{}
}

func startWorker(t *testing.T, store *kv.Store, name string, slots int, target *workermodel.Target, change ...func(*fakeWorker)) *fakeWorker {
	t.Helper()
	w := &fakeWorker{t: t, store: store, name: name, slots: slots, target: target, ttl: 5 * time.Second, limit: 1}
	for _, c := range change {
		c(w)
	}
	w.start()
	t.Cleanup(w.kill)
	return w
}

func (w *fakeWorker) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan error, 1)
	w.cancel, w.done, w.poke = cancel, make(chan struct{}), make(chan struct{}, 1)
	go func() {
		defer close(w.done)
		w.run(ctx, ready)
	}()
	if err := <-ready; err != nil {
		w.t.Fatal(err)
	}
}

func (w *fakeWorker) run(ctx context.Context, ready chan error) {
	s, err := session.Open(ctx, w.store, session.Options{TTL: w.ttl, CallLimit: time.Second})
	if err != nil {
		ready <- err
		return
	}
	rec := &record.Worker{Header: record.Head, Data: w.name + ":1", Ops: w.ops, TTL: int(s.TTL() / time.Second), CallLimit: w.limit, Slots: w.slots, Labels: w.labels, Protocol: record.Protocol}
	if w.shape != nil {
		w.shape(rec)
	}
	key := tree.Worker(w.name)
	var r kv.Result
	for {
		r, err = w.store.Txn(ctx, kv.Txn{Guards: []kv.Guard{kv.Absent(key)}, Ops: []kv.Op{kv.PutLeased(key, record.MustEncode(rec), s.Lease())}})
		if err == nil || !errors.Is(err, kv.ErrConflict) || ctx.Err() != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		ready <- err
		return
	}
	w.mu.Lock()
	w.inc, w.lease = r.Rev, s.Lease()
	w.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { _ = s.Run(ctx) })
	changed := make(chan struct{}, 1)
	// What a worker watches, and a step only where a batch is about what it hosts: a fleet of these shares one machine.
	hosts := map[plan.JobID]bool{}
	follows := []string{key, tree.Tasks(w.name), tree.Prefix() + "taskstatus/" + w.name + "/"}
	for _, k := range []keys.Kind{keys.KindPipeline, keys.KindPlacement, keys.KindCheckpoint, keys.KindAck} {
		follows = append(follows, tree.Prefix()+string(k)+"/")
	}
	m := mirror.Follow(w.store, follows, mirror.Options{OnBatch: func(b mirror.Batch) {
		mine := b.Initial
		for _, e := range b.Events {
			p, _ := tree.Parse(e.Entry.Key)
			if p.Kind == keys.KindTask {
				hosts[p.Job] = true
			}
			mine = mine || p.Kind == keys.KindWorker || hosts[p.Job]
		}
		if !mine {
			return
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	}})
	wg.Go(func() { _ = m.Run(ctx) })
	ready <- nil
	select { // a poke that comes before the first listing would find no key
	case <-m.Ready():
	case <-ctx.Done():
		return
	}
	brain := &workermodel.Worker{Tree: tree, Name: w.name, Incarnation: r.Rev, Target: w.target, Hooks: w.hooks}
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-w.poke:
		}
		v := snap{m.View().Entries}
		if v.Get(key).CreateRev != r.Rev {
			return // lost
		}
		for _, x := range brain.Step(v) {
			guards := []kv.Guard{kv.AtCreate(key, r.Rev)}
			if x.Word != 0 {
				guards = append(guards, kv.AtMod(tree.Pipeline(x.Ref.Job, x.Ref.Pipeline), x.Word))
			}
			res, err := w.store.Txn(ctx, kv.Txn{Guards: guards, Ops: []kv.Op{kv.Put(x.Key, x.Value)}})
			if err == nil {
				_ = m.Wait(ctx, res.Rev)
			}
		}
	}
}

// kill ends the process without a word: its key stays until its lease is gone.
func (w *fakeWorker) kill() {
	w.cancel()
	<-w.done
}

// expire ends the lease of a killed worker at once.
func (w *fakeWorker) expire(e *kvtest.Etcd) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.ExpireLease(w.t, w.lease)
}

type snap struct{ m map[string]kv.Entry }

func (v snap) Get(key string) kv.Entry { return v.m[key] }

func (v snap) List(prefix string) []kv.Entry {
	var out []kv.Entry
	for k, e := range v.m {
		if strings.HasPrefix(k, prefix) {
			out = append(out, e)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out
}
