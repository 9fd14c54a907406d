package fake

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"strait/plan/fault"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
)

func init() {
	connector.RegisterSource(connector.SourceFactory{
		Name:    "FakeSource",
		Doc:     "Rows made up by rule or written in the job file, for tests and demonstrations.",
		Options: spec(),
		Claims:  []string{"bounded in BATCH, stays open in STREAMING", "parallel", "replayable: a split is read on from any row", "several tables"},
		New:     newSource,
	})
}

type source struct {
	tables      []*config
	seed        uint64
	seeded      bool
	streaming   bool
	parallelism int64
}

func newSource(_ context.Context, c connector.SourceConfig) (connector.Source, error) {
	v := c.Options
	s := &source{seed: uint64(v.Int("seed")), seeded: v.Has("seed"), streaming: c.Streaming, parallelism: int64(max(c.Parallelism, 1))}
	var p problems
	if v.Has("tables_configs") {
		for _, t := range v.Subs("tables_configs") {
			s.tables = append(s.tables, newConfig(&p, t))
		}
		if len(s.tables) == 0 {
			p.add(v, "tables_configs", "there are no tables", "write tables_configs = [ { schema { … } } ]")
		}
	} else {
		s.tables = []*config{newConfig(&p, v)}
	}
	seen := map[schema.Path]bool{}
	for _, t := range s.tables {
		if seen[t.table.Path] {
			p.add(v, "tables_configs", fmt.Sprintf("two tables have the name %q", t.table.Path), `give each its own schema { table = "database.table" }`)
		}
		seen[t.table.Path] = true
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *source) Tables() []*schema.Table {
	out := make([]*schema.Table, len(s.tables))
	for i, t := range s.tables {
		out[i] = t.table
	}
	return out
}

func (s *source) Bounded() bool { return !s.streaming }

// Changelog says whether a literal row is other than an insert.
func (s *source) Changelog() bool {
	for _, t := range s.tables {
		if t.literal != nil && t.literal.Kinds != nil {
			return true
		}
	}
	return false
}

// part is what a split says: which rows of which table, and from what they are made.
type part struct {
	Version int    `json:"v"`
	Table   int    `json:"table"`
	Number  int64  `json:"number"` // among the splits of the table
	First   int64  `json:"first"`  // rows of the table before it
	Rows    int64  `json:"rows"`
	Seed    uint64 `json:"seed"`
	Year    int64  `json:"year"` // where no template gives it
}

const partVersion = 1

// cursor is how far discovery has come.
type cursor struct {
	Version int    `json:"v"`
	Next    int64  `json:"next"`
	Seed    uint64 `json:"seed"`
	Year    int64  `json:"year"`
}

// page is how many splits one Discover returns at most.
const page = 1000

type enumerator struct{ s *source }

func (s *source) NewEnumerator(context.Context) (connector.Enumerator, error) {
	return enumerator{s}, nil
}

func (e enumerator) Close() error { return nil }

func (e enumerator) Discover(ctx context.Context, at []byte) (connector.Discovery, error) {
	cur := cursor{Version: partVersion, Seed: e.s.seed, Year: int64(time.Now().Year())}
	if !e.s.seeded {
		cur.Seed = rand.Uint64()
	}
	if at != nil {
		if err := json.Unmarshal(at, &cur); err != nil || cur.Version != partVersion {
			return connector.Discovery{}, fault.Fatalf("FakeSource: the discovery cursor %q is of another version", at)
		}
	}
	var d connector.Discovery
	skipped := int64(0) // splits of the tables before
	for i, t := range e.s.tables {
		splits, rows := t.perReader()
		total := splits * e.s.parallelism
		for n := cur.Next - skipped; n < total && len(d.Splits) < page; n++ {
			if err := ctx.Err(); err != nil {
				return connector.Discovery{}, err
			}
			reader, k := n%e.s.parallelism, n/e.s.parallelism
			whole := t.rowNum
			if t.isLit {
				whole = rows
			}
			data, err := json.Marshal(part{Version: partVersion, Table: i, Number: n, First: reader*whole + k*rows, Rows: min(rows, whole-k*rows), Seed: cur.Seed, Year: cur.Year})
			if err != nil {
				return connector.Discovery{}, err
			}
			d.Splits = append(d.Splits, connector.Split{ID: fmt.Sprintf("%d-%d", i, n), Data: data})
			cur.Next++
		}
		skipped += total
	}
	d.Done = cur.Next >= skipped
	if d.Done && e.s.streaming {
		d.Done, d.Again = false, time.Hour // stays open: there is never more
	}
	var err error
	d.Cursor, err = json.Marshal(cur)
	return d, err
}

type reader struct {
	s       *source
	schemas []*batch.Schema
	part    part
	make    []column  // of the open split
	perRead int64     // 0: not known yet
	row     int64     // next row of the open split
	next    time.Time // when the open split may begin
}

func (s *source) NewReader(_ context.Context, rc connector.ReaderContext) (connector.Reader, error) {
	if len(rc.Schemas) != len(s.tables) {
		return nil, fmt.Errorf("BUG: %d schemas for %d tables of FakeSource", len(rc.Schemas), len(s.tables))
	}
	return &reader{s: s, schemas: rc.Schemas}, nil
}

func (r *reader) Close() error { return nil }

func (r *reader) Open(ctx context.Context, sp connector.Split, position []byte) error {
	var p part
	if err := json.Unmarshal(sp.Data, &p); err != nil || p.Version != partVersion || p.Table < 0 || p.Table >= len(r.s.tables) {
		return fault.Fatalf("FakeSource: split %s does not belong to these options: %q", sp.ID, sp.Data)
	}
	row := int64(0)
	if position != nil {
		n, used := binary.Uvarint(position[min(1, len(position)):])
		if len(position) < 2 || position[0] != partVersion || used <= 0 || n > uint64(p.Rows) {
			return fault.Fatalf("FakeSource: position %x is not one of split %s", position, sp.ID)
		}
		row = int64(n)
	}
	r.part, r.row = p, row
	t := r.s.tables[p.Table]
	if !t.isLit {
		r.make = t.columns(p)
	}
	r.perRead = 0
	return ctx.Err()
}

func (r *reader) Read(ctx context.Context, out *connector.Output) (connector.Progress, error) {
	if err := ctx.Err(); err != nil {
		return connector.Progress{}, err
	}
	t := r.s.tables[r.part.Table]
	if wait := time.Until(r.next); t.interval > 0 && r.row == 0 && wait > 0 {
		return connector.Progress{Position: r.position(), Idle: wait}, nil
	}
	if r.perRead == 0 {
		r.perRead = t.rowsPerBatch(out.Limit())
	}
	n := min(r.perRead, r.part.Rows-r.row)
	if n > 0 {
		out.Emit(r.rows(t, int(n)))
		r.row += n
	}
	done := r.row >= r.part.Rows
	if done {
		r.next = time.Now().Add(t.interval)
	}
	return connector.Progress{Position: r.position(), Done: done}, nil
}

func (r *reader) position() []byte {
	return binary.AppendUvarint([]byte{partVersion}, uint64(r.row))
}

// rows are the next n rows of the open split.
func (r *reader) rows(t *config, n int) *batch.Batch {
	s := r.schemas[r.part.Table]
	if t.isLit {
		b := t.literal
		if int(r.row) > 0 || n < b.Rows {
			b = b.Slice(int(r.row), int(r.row)+n)
		}
		return batch.New(s, b.Cols, n, b.Kinds)
	}
	return batch.New(s, arrays(r.make, int(r.row), n), n, nil)
}
