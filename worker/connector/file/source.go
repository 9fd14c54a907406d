package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
	"strait/worker/connector"
	"strait/worker/format/csv"
)

func init() {
	connector.RegisterSource(connector.SourceFactory{
		Name:    "LocalFile",
		Doc:     "Reads files of a folder on the worker's host, or on a file system that all workers see: text, csv, JSON lines and parquet.",
		Options: sourceSpec(),
		Claims:  []string{"bounded", "parallel", "replayable", "several tables"},
		New: func(ctx context.Context, c connector.SourceConfig) (connector.Source, error) {
			return newSource(ctx, local{}, c)
		},
	})
}

// source is a configured file source.
type source struct {
	inputs      []*input
	parallelism int
	unknown     bool // the tables cannot be told without I/O
}

func newSource(ctx context.Context, f FS, c connector.SourceConfig) (*source, error) {
	blocks := []option.Values{c.Options}
	if c.Options.Has("tables_configs") {
		blocks = c.Options.Subs("tables_configs")
	}
	s := &source{parallelism: c.Parallelism}
	var l fault.List
	var later error
	for i, v := range blocks {
		in, err := newInput(f, c.Folder, v, i, &l)
		if err != nil {
			later = errors.Join(later, err)
			continue
		}
		s.inputs = append(s.inputs, in)
	}
	if len(blocks) == 0 {
		l.Add(posOf(c.Options, "tables_configs"), c.Options.Path("tables_configs"), "there are no tables", "write tables_configs = [ { path = …, file_format_type = … } ]")
	}
	if later != nil && l.Len() == 0 {
		return nil, later
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	if c.NoIO { // columns may come from the paths or the files themselves: then they are not known
		for _, in := range s.inputs {
			s.unknown = s.unknown || in.partitions || in.table == nil
		}
		return s, nil
	}
	for _, in := range s.inputs {
		if err := in.learn(ctx, &l); err != nil {
			return nil, err
		}
	}
	return s, l.Err()
}

// Tables implements connector.Source.
func (s *source) Tables() []*schema.Table {
	if s.unknown {
		return nil
	}
	out := make([]*schema.Table, len(s.inputs))
	for i, in := range s.inputs {
		out[i] = in.table
	}
	return out
}

// Bounded implements connector.Source.
func (s *source) Bounded() bool { return true }

// NewEnumerator implements connector.Source.
func (s *source) NewEnumerator(context.Context) (connector.Enumerator, error) {
	return &enumerator{s: s}, nil
}

// splitVersion is the format of splits, positions and cursors; a newer one is refused.
const splitVersion = 1

// splitData is a part of a file.
type splitData struct {
	Version int    `json:"v"`
	Table   int    `json:"table"`
	Path    string `json:"path"`
	Start   int64  `json:"start"`
	End     int64  `json:"end"`
	Size    int64  `json:"size"`
}

// cursor is where discovery goes on: behind the files before File, in it from Offset on.
type cursor struct {
	Version int    `json:"v"`
	Table   int    `json:"table"`
	File    string `json:"file,omitempty"`
	Offset  int64  `json:"offset,omitempty"`
}

// enumerator lists files and cuts big ones.
type enumerator struct {
	s     *source
	table int // listed
	files []found
	next  int
	off   int64
	begun bool
}

type found struct {
	name string
	size int64
}

const splitsPerCall = 1000

// Discover implements connector.Enumerator. Small files come many at a time, parts of a big one few at a time, so
// that readers begin while its borders are still looked for.
func (e *enumerator) Discover(ctx context.Context, at []byte) (connector.Discovery, error) {
	c := cursor{Version: splitVersion}
	if len(at) > 0 {
		if err := json.Unmarshal(at, &c); err != nil || c.Version != splitVersion {
			return connector.Discovery{}, fault.Fatalf("a file source cannot go on from cursor %q: it is not of version %d", at, splitVersion)
		}
	}
	if err := e.seek(ctx, c); err != nil {
		return connector.Discovery{}, err
	}
	var d connector.Discovery
	for more := true; more; {
		for e.next == len(e.files) && e.table < len(e.s.inputs) { // the cursor never points behind a table's last file
			e.table++
			if err := e.list(ctx); err != nil {
				return connector.Discovery{}, err
			}
		}
		if e.table >= len(e.s.inputs) || len(d.Splits) >= splitsPerCall {
			break
		}
		scanned, err := e.cut(ctx, &d)
		if err != nil {
			return connector.Discovery{}, err
		}
		more = !scanned || e.next == len(e.files)
	}
	c = cursor{Version: splitVersion, Table: e.table, Offset: e.off}
	if e.next < len(e.files) {
		c.File = e.files[e.next].name
	}
	d.Done = e.table >= len(e.s.inputs)
	var err error
	d.Cursor, err = json.Marshal(c)
	return d, err
}

// seek makes the enumerator stand at the cursor; it does already except after a restart.
func (e *enumerator) seek(ctx context.Context, c cursor) error {
	if e.begun {
		return nil
	}
	e.begun = true
	e.table = c.Table
	if err := e.list(ctx); err != nil {
		return err
	}
	if c.File == "" {
		return nil
	}
	for e.next < len(e.files) && e.files[e.next].name != c.File {
		e.next++
	}
	if e.next == len(e.files) {
		return fault.Fatalf("file %s was there when the job began and is gone; put it back or start the job anew", c.File)
	}
	e.off = c.Offset
	return nil
}

func (e *enumerator) list(ctx context.Context) error {
	e.files, e.next, e.off = nil, 0, 0
	if e.table >= len(e.s.inputs) {
		return nil
	}
	in := e.s.inputs[e.table]
	err := in.files(ctx, func(name string, i Info) error {
		e.files = append(e.files, found{name, i.Size})
		return nil
	})
	if err != nil {
		return in.pathError(err)
	}
	return nil
}

// cut adds the splits of the file at hand, or some of them. It reports whether it had to read.
func (e *enumerator) cut(ctx context.Context, d *connector.Discovery) (bool, error) {
	in, f := e.s.inputs[e.table], e.files[e.next]
	split := func(from, to int64) {
		data, err := json.Marshal(splitData{splitVersion, in.index, f.name, from, to, f.size})
		if err != nil {
			panic("BUG: " + err.Error())
		}
		d.Splits = append(d.Splits, connector.Split{ID: fmt.Sprintf("%d:%s[%d-%d]", in.index, f.name, from, to), Data: data})
	}
	if !e.divides(in, f) {
		split(0, f.size)
		e.next++
		return false, nil
	}
	file, err := in.fs.Open(f.name)
	if err != nil {
		return false, in.openError(f.name, err)
	}
	defer file.Close()
	if in.format == formatParquet {
		borders, err := parquetBorders(file, f, in.splitSize)
		if err != nil {
			return false, err
		}
		for i := 0; i+1 < len(borders); i++ {
			split(borders[i], borders[i+1])
		}
		e.next++
		return true, nil
	}
	o := in.csv
	if in.format == formatJSON || in.content {
		o = csv.Options{}
	}
	sc := csv.NewScanner(file, &o, f.size)
	for n := 0; n < 4 && ctx.Err() == nil; n++ {
		to := f.size
		if f.size-e.off > in.splitSize+in.splitSize/4 {
			if to, err = sc.Border(e.off, e.off+in.splitSize); err != nil {
				return false, fmt.Errorf("read %s: %w", f.name, err)
			}
		}
		split(e.off, to)
		e.off = to
		if to >= f.size {
			e.next, e.off = e.next+1, 0
			break
		}
	}
	return true, ctx.Err()
}

// divides says whether a file is read in several splits: with one reader that would only cost.
func (e *enumerator) divides(in *input, f found) bool {
	if !in.split || e.s.parallelism < 2 || f.size <= in.splitSize+in.splitSize/4 {
		return false
	}
	switch in.format {
	case formatCSV, formatText:
		return in.content && in.csv.RowDelimiter == "" || in.csv.Splittable()
	}
	return true
}

// Close implements connector.Enumerator.
func (e *enumerator) Close() error { return nil }

func (in *input) openError(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Fatalf("file %s is not there: it was removed, or this worker does not see the folder; every worker must see it", name)
	}
	remedy := ""
	if errors.Is(err, fs.ErrPermission) {
		remedy = "; give the user of the worker the right to read it"
	}
	return fmt.Errorf("open %s: %w%s", name, because(name, err), remedy)
}
