package blackhole

import (
	"context"
	"encoding/json"
	"log/slog"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/fault"
	"strait/transport/batch"
	"strait/worker/connector"
)

func init() {
	connector.RegisterSink(connector.SinkFactory{
		Name:   "Blackhole",
		Doc:    "Counts rows and bytes of each table and drops them. Strait only.",
		Claims: []string{string(connector.ExactlyOnce), "several tables"},
		New: func(context.Context, connector.SinkConfig) (connector.Sink, error) {
			return sink{}, nil
		},
	})
}

type sink struct{}

func (sink) Claim() connector.Claim { return connector.Claim{Guarantee: connector.ExactlyOnce} }

func (sink) NewWriter(_ context.Context, wc connector.WriterContext) (connector.Writer, error) {
	return &writer{schemas: wc.Schemas, counts: make([]Count, len(wc.Schemas))}, nil
}

func (sink) NewAggregated(_ context.Context, cc connector.CommitterContext) (connector.Committer, error) {
	return &committer{log: cc.Log}, nil
}

// Count is what one table received.
type Count struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
}

// entry is the prepared commit of one writer.
type entry struct {
	Version int     `json:"v"`
	Counts  []Count `json:"counts"` // since the attempt began
}

const entryVersion = 1

type writer struct {
	schemas []*batch.Schema
	counts  []Count // one a schema
}

func (w *writer) Write(ctx context.Context, b *batch.Batch) error {
	c := &w.counts[b.Schema.Index]
	c.Rows += int64(b.Rows)
	c.Bytes += b.Bytes()
	return ctx.Err()
}

func (w *writer) Prepare(ctx context.Context, _ plan.CheckpointID) ([][]byte, error) {
	for i, s := range w.schemas {
		w.counts[i].Table = s.Table.Path.String()
	}
	data, err := json.Marshal(entry{Version: entryVersion, Counts: w.counts})
	if err != nil {
		return nil, err
	}
	return [][]byte{data}, ctx.Err()
}

func (w *writer) Close() error { return nil }

type committer struct{ log *slog.Logger }

func (c *committer) Commit(_ context.Context, prepared []checkpoint.Prepared) error {
	totals, err := Totals(prepared)
	if err != nil {
		return err
	}
	for _, t := range totals {
		c.log.Info("blackhole: rows dropped", "table", t.Table, "rows", t.Rows, "bytes", t.Bytes)
	}
	return nil
}

// Totals adds up the entries of a checkpoint, table by table in the order of their first appearance.
func Totals(prepared []checkpoint.Prepared) ([]Count, error) {
	var out []Count
	at := map[string]int{}
	for _, p := range prepared {
		var e entry
		if err := json.Unmarshal(p.Data, &e); err != nil || e.Version != entryVersion {
			return nil, fault.Fatalf("Blackhole: prepared commit %s is of another version: %q", p.CommitID(), p.Data)
		}
		for _, c := range e.Counts {
			i, ok := at[c.Table]
			if !ok {
				i = len(out)
				at[c.Table] = i
				out = append(out, Count{Table: c.Table})
			}
			out[i].Rows += c.Rows
			out[i].Bytes += c.Bytes
		}
	}
	return out, nil
}

func (c *committer) Abandon(context.Context, plan.Attempt, []checkpoint.Prepared) error { return nil }

func (c *committer) Close() error { return nil }
