package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"strait/integration/bench/yardstick"
	"strait/plan/fault"
	"strait/plan/option"
	"strait/transport/batch"
	"strait/worker/connector"
	_ "strait/worker/connector/file" // LocalFile
)

func init() { Register("csv-reader", csvReaderFigures) }

// csvColumns are those of csvSchema, for a source made in this process.
var csvColumns = [][2]string{{"id", "bigint"}, {"customer", "int"}, {"price", "decimal(12, 2)"}, {"weight", "double"}, {"born", "date"},
	{"changed", "timestamp"}, {"city", "string"}, {"note", "string"}}

// csvSource opens a LocalFile source over a file.
func csvSource(ctx context.Context, path string, parallelism int) (connector.Source, error) {
	text := func(s string) *option.Node { return &option.Node{Kind: option.String, Text: s} }
	fields := &option.Node{Kind: option.Object}
	for _, c := range csvColumns {
		fields.Fields = append(fields.Fields, option.Field{Key: c[0], Value: text(c[1])})
	}
	block := &option.Node{Kind: option.Object, Fields: []option.Field{
		{Key: "path", Value: text(path)}, {Key: "file_format_type", Value: text("csv")},
		{Key: "schema", Value: &option.Node{Kind: option.Object, Fields: []option.Field{{Key: "fields", Value: fields}}}},
	}}
	f := connector.FindSource("LocalFile")
	var l fault.List
	v := f.Options.Decode(block, "bench", &l)
	if err := l.Err(); err != nil {
		return nil, err
	}
	return f.New(ctx, connector.SourceConfig{Options: v, Parallelism: parallelism})
}

// readCSV reads a file as the engine does, with n readers that take splits as they are discovered, and throws the
// batches away.
func readCSV(path string, n int) (rows int64, err error) {
	ctx := context.Background()
	src, err := csvSource(ctx, path, n)
	if err != nil {
		return 0, err
	}
	schemas := batch.Schemas(src.Tables())
	splits := make(chan connector.Split, 16)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(splits)
		e, err := src.NewEnumerator(ctx)
		if err != nil {
			return err
		}
		defer e.Close()
		for cursor := []byte(nil); ; {
			d, err := e.Discover(ctx, cursor)
			if err != nil {
				return err
			}
			for _, s := range d.Splits {
				select {
				case splits <- s:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			if d.Done {
				return nil
			}
			cursor = d.Cursor
		}
	})
	counts := make([]int64, n)
	for i := range n {
		g.Go(func() error {
			r, err := src.NewReader(ctx, connector.ReaderContext{Subtask: i, Parallelism: n, Schemas: schemas})
			if err != nil {
				return err
			}
			defer r.Close()
			for s := range splits {
				if err := r.Open(ctx, s, nil); err != nil {
					return err
				}
				for done := false; !done; {
					out := connector.NewOutput(schemas, batch.Limit{})
					p, err := r.Read(ctx, out)
					if err != nil {
						return err
					}
					for _, b := range out.Take() {
						counts[i] += int64(b.Rows)
					}
					done = p.Done
				}
			}
			return nil
		})
	}
	err = g.Wait()
	for _, c := range counts {
		rows += c
	}
	return rows, err
}

// csvReaderFigures compares the reader that users get, alone in this process, with encoding/csv on the same file: one
// reader, and two that share splits against two on the halves. What a whole job takes is group csv.
func csvReaderFigures() ([]Figure, error) {
	path, err := csvFile("256m.csv", 256<<20)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	half, err := yardstick.RecordAfter(path, info.Size()/2)
	if err != nil {
		return nil, err
	}
	rows, err := yardstick.ReadCSV(path, 0, 0)
	if err != nil {
		return nil, err
	}
	rate := func(read func() (int64, error)) func() (float64, error) {
		return func() (float64, error) {
			began := time.Now()
			n, err := read()
			if err == nil && n != rows {
				err = fmt.Errorf("%d rows were read, the file has %d", n, rows)
			}
			return float64(info.Size()) / 1e6 / time.Since(began).Seconds(), err
		}
	}
	bare := func(parts ...[2]int64) func() (int64, error) {
		return func() (int64, error) {
			var g errgroup.Group
			counts := make([]int64, len(parts))
			for i, p := range parts {
				g.Go(func() (err error) {
					counts[i], err = yardstick.ReadCSV(path, p[0], p[1])
					return err
				})
			}
			err := g.Wait()
			n := int64(0)
			for _, c := range counts {
				n += c
			}
			return n, err
		}
	}
	var out []Figure
	for _, c := range []struct {
		readers int
		wanted  float64
		bare    func() (int64, error)
	}{{1, 1.3, bare([2]int64{0, 0})}, {2, 0.9, bare([2]int64{0, half}, [2]int64{half, 0})}} {
		a, b, ratio, err := Alternate(rate(func() (int64, error) { return readCSV(path, c.readers) }), rate(c.bare))
		if err != nil {
			return out, err
		}
		out = append(out, Figure{Name: fmt.Sprintf("csv-reader/%d", c.readers), Unit: "MB/s", Value: a, Yardstick: b, Ratio: ratio, Wanted: c.wanted})
	}
	return out, nil
}
