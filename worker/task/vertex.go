package task

import (
	"context"
	"fmt"

	"strait/plan"
	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/logical"
	"strait/plan/option"
	"strait/plan/physical"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/memory"
	"strait/worker/transform"
)

// vertex is a vertex of the plan made ready on this worker. Its subtasks share it.
type vertex struct {
	*physical.Vertex
	in, out []*batch.Schema

	source    connector.Source
	transform transform.Transform
	sink      connector.Sink
	claim     connector.Claim
	buffers   memory.Range // of each writer of the sink
}

// twoPhase and aggregating say who commits for a sink. The plan's word is not needed: the sink itself knows.
func (v *vertex) aggregating() connector.Aggregating {
	a, _ := v.sink.(connector.Aggregating)
	return a
}

func (v *vertex) twoPhase() connector.TwoPhase {
	if v.aggregating() != nil {
		return nil // one task commits for all
	}
	t, _ := v.sink.(connector.TwoPhase)
	return t
}

// vertices makes vertices once each.
type vertices struct {
	cfg  *Config
	byID map[plan.VertexID]*vertex
}

func (vs *vertices) get(ctx context.Context, id plan.VertexID) (*vertex, error) {
	if v := vs.byID[id]; v != nil {
		return v, nil
	}
	pv := vs.cfg.Pipeline.Vertex(id)
	if pv == nil {
		return nil, fmt.Errorf("BUG: the plan has no vertex %s in pipeline %d", id, vs.cfg.Pipeline.ID)
	}
	v := &vertex{Vertex: pv, in: batch.Schemas(pv.In), out: batch.Schemas(pv.Out)}
	err := protect(vs.cfg.Log, func() string { return pv.Path }, func() error { return vs.make(ctx, v) })
	if err != nil {
		return nil, at(err, v, "")
	}
	vs.byID[id] = v
	return v, nil
}

func (vs *vertices) make(ctx context.Context, v *vertex) error {
	switch v.Section {
	case config.Source:
		return vs.makeSource(ctx, v)
	case config.Transform:
		f := transform.Find(v.Plugin)
		if f == nil {
			return notInBuild("transform", v.Plugin)
		}
		values, err := vs.decode(&f.Options, v)
		if err != nil {
			return err
		}
		v.transform, err = f.New(transform.Config{Options: values, Inputs: v.InputNames})
		return err
	case config.Sink:
		return vs.makeSink(ctx, v)
	}
	return fmt.Errorf("BUG: section %q", v.Section)
}

func (vs *vertices) makeSource(ctx context.Context, v *vertex) error {
	f := connector.FindSource(v.Plugin)
	if f == nil {
		return notInBuild("source", v.Plugin)
	}
	values, err := vs.decode(&f.Options, v)
	if err != nil {
		return err
	}
	v.source, err = f.New(ctx, connector.SourceConfig{
		Options: values, Streaming: vs.cfg.Plan.Streaming, Parallelism: v.Parallelism, Folder: vs.cfg.Folder,
	})
	if err != nil {
		return err
	}
	now := v.source.Tables()
	if len(now) != len(v.Out) {
		return fmt.Errorf("the source has %d tables now, %d when the job was planned; submit the job again", len(now), len(v.Out))
	}
	for i, t := range now {
		if !t.SameRow(v.Out[i]) {
			return fmt.Errorf("table %s has other columns now than when the job was planned (%v, then %v); submit the job again", t.Path, t.Names(), v.Out[i].Names())
		}
	}
	return nil
}

func (vs *vertices) makeSink(ctx context.Context, v *vertex) error {
	f := connector.FindSink(v.Plugin)
	if f == nil {
		return notInBuild("sink", v.Plugin)
	}
	values, err := vs.decode(&f.Options, v)
	if err != nil {
		return err
	}
	v.sink, err = f.New(ctx, connector.SinkConfig{
		Options: values, Tables: v.In, Streaming: vs.cfg.Plan.Streaming, Parallelism: v.Parallelism,
		Job: vs.cfg.JobID, JobName: vs.cfg.Plan.JobName, Folder: vs.cfg.Folder,
	})
	if err == nil {
		v.claim = v.sink.Claim()
		v.buffers = memory.WriterRange
		if b, ok := v.sink.(connector.Buffering); ok {
			v.buffers.Least, v.buffers.Most = b.Buffers()
		}
	}
	return err
}

func notInBuild(kind, name string) error {
	return fault.Fatalf("%s %s is not in the build of this worker; run the same release on every worker", kind, name)
}

// decode reads the options the way the planner did; the plan has them as the job file does, secrets sealed. From here
// on the scrubber knows every secret of the plugin.
func (vs *vertices) decode(spec *option.Spec, v *vertex) (option.Values, error) {
	var l fault.List
	common := logical.Common(v.Section)
	options, values := vs.cfg.Secrets.Expand(v.Options, v.Path, &l)
	vs.cfg.Scrub.Add(values...)
	found := spec.Secrets(options, v.Path, common...) // also those of a job that was stored in clear
	for i := range found {
		vs.cfg.Scrub.Add(found[i].Parts()...)
	}
	if err := l.Err(); err != nil {
		return option.Values{}, err
	}
	decoded := spec.Decode(options, v.Path, &l, common...)
	return decoded, l.Err()
}
