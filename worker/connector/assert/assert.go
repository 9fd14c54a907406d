package assert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/format/value"
)

func init() {
	connector.RegisterSink(connector.SinkFactory{
		Name:    "Assert",
		Doc:     "Fails the job when rows or tables break a rule.",
		Options: spec(),
		Claims:  []string{string(connector.ExactlyOnce), "several tables", "row counts and table rules are judged once for the whole job"},
		New:     newSink,
	})
}

type sink struct {
	byTable   []*ruleSet // by schema index; nil: the table has no rules
	all       []*ruleSet // also those of tables that do not arrive
	names     []string   // table-names
	judgeName bool
	streaming bool
}

func newSink(_ context.Context, c connector.SinkConfig) (connector.Sink, error) {
	v := c.Options.Sub("rules")
	s := &sink{byTable: make([]*ruleSet, len(c.Tables)), names: v.Strings("table-names"), judgeName: v.Has("table-names"), streaming: c.Streaming}
	var l fault.List
	if v.Has("tables_configs") {
		for _, t := range v.Subs("tables_configs") {
			s.single(t, c.Tables, &l)
		}
	} else {
		for i, t := range c.Tables {
			s.byTable[i] = compile(v, t, t.Path.String(), &l)
			s.all = append(s.all, s.byTable[i])
		}
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

// single adds the rules of one entry of tables_configs.
func (s *sink) single(v option.Values, tables []*schema.Table, l *fault.List) {
	path := v.String("table_path")
	names := make([]string, len(tables))
	for i, t := range tables {
		names[i] = t.Path.String()
		if names[i] == path {
			s.byTable[i] = compile(v, t, path, l)
			s.all = append(s.all, s.byTable[i])
			return
		}
	}
	s.all = append(s.all, compile(v, nil, path, l))
	if !v.Has("field_rules") && !v.Has("catalog_table_rule") {
		return // no row of it arrives: the number of rows can still be judged
	}
	remedy := "the tables are " + listed(names)
	if near := option.Nearest(path, names); near != "" {
		remedy = fmt.Sprintf("did you mean %q?", near)
	}
	l.Add(v.Node("table_path").Pos, v.Path("table_path"), fmt.Sprintf("no table %q arrives at this sink", path), remedy)
}

func (s *sink) Claim() connector.Claim { return connector.Claim{Guarantee: connector.ExactlyOnce} }

func (s *sink) NewWriter(_ context.Context, wc connector.WriterContext) (connector.Writer, error) {
	return &writer{sink: s, subtask: wc.Subtask, schemas: wc.Schemas, rows: make([]int64, len(wc.Schemas))}, nil
}

func (s *sink) NewAggregated(context.Context, connector.CommitterContext) (connector.Committer, error) {
	return &committer{s}, nil
}

type writer struct {
	*sink
	subtask int
	schemas []*batch.Schema
	rows    []int64 // seen, by schema index
}

func (w *writer) Write(ctx context.Context, b *batch.Batch) error {
	t := b.Schema.Index
	if set := w.byTable[t]; set != nil {
		if bad := set.check(b); bad != nil {
			return w.failure(b, bad)
		}
	}
	w.rows[t] += int64(b.Rows)
	return ctx.Err()
}

func (w *writer) failure(b *batch.Batch, bad *broken) error {
	col := b.Schema.Table.Columns[bad.column.index]
	v := shorten(value.Text(col.Type, b.Cols[bad.column.index], bad.row))
	return fault.Fatalf("Assert: table %q, row %d of subtask %d, column %s: the value %s breaks the rule %s; the row is %s %s",
		b.Schema.Table.Path, w.rows[b.Schema.Index]+int64(bad.row)+1, w.subtask, col.Name, v, bad.rule, b.Kind(bad.row), shorten(string(value.AppendRow(nil, b, bad.row))))
}

// entry is the prepared commit of one writer: the rows it has seen in this attempt, table by table.
type entry struct {
	Version int          `json:"v"`
	Counts  []tableCount `json:"counts"`
}

type tableCount struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
}

const entryVersion = 1

func (w *writer) Prepare(ctx context.Context, _ plan.CheckpointID) ([][]byte, error) {
	e := entry{Version: entryVersion, Counts: make([]tableCount, len(w.rows))}
	for i, n := range w.rows {
		e.Counts[i] = tableCount{w.schemas[i].Table.Path.String(), n}
	}
	data, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return [][]byte{data}, ctx.Err()
}

func (w *writer) Close() error { return nil }

type committer struct{ *sink }

// Commit judges the counts of all subtasks and the tables. It changes nothing, so a replay judges the same.
func (c *committer) Commit(_ context.Context, prepared []checkpoint.Prepared) error {
	rows := map[string]int64{}
	for i := range prepared {
		p := &prepared[i]
		var e entry
		if err := json.Unmarshal(p.Data, &e); err != nil || e.Version != entryVersion {
			return fault.Fatalf("Assert: prepared commit %s is of another version: %q", p.CommitID(), p.Data)
		}
		for _, t := range e.Counts {
			rows[t.Table] += t.Rows
		}
	}
	var faults []error
	for _, f := range c.judge(rows) {
		faults = append(faults, errors.New("Assert: "+f))
	}
	return fault.Fatal(errors.Join(faults...))
}

// judge lists the rules that do not hold, each one once.
func (c *committer) judge(rows map[string]int64) (faults []string) {
	seen := map[string]bool{}
	for _, set := range c.all {
		if seen[set.path] {
			continue // two inputs of one name are one table
		}
		seen[set.path] = true
		n := rows[set.path]
		for _, r := range set.rows {
			if r.kind == ruleMaxRow && float64(n) > r.value || r.kind == ruleMinRow && float64(n) < r.value && !c.streaming {
				faults = append(faults, fmt.Sprintf("table %q: %d rows break the rule %s", set.path, n, r))
			}
		}
		if set.judge && set.table != nil {
			faults = append(faults, set.judgeCatalog()...)
		}
	}
	if c.judgeName && !c.streaming {
		var have []string
		for name, n := range rows {
			if n > 0 {
				have = append(have, name)
			}
		}
		sort.Strings(have)
		want := slices.Compact(slices.Sorted(slices.Values(c.names)))
		if !slices.Equal(want, have) {
			faults = append(faults, fmt.Sprintf("table-names: rows arrived of %s, not of %s", listed(have), listed(want)))
		}
	}
	return faults
}

func (c *committer) Abandon(context.Context, plan.Attempt, []checkpoint.Prepared) error { return nil }

func (c *committer) Close() error { return nil }
