package csv

import (
	"bytes"
	stdcsv "encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"strait/transport/batch"
	"strait/worker/format/field"
	"strait/worker/format/formattest"
)

// benchTable is the shape of the promise: ints, decimals, dates, timestamps, quoted strings.
var benchTable = formattest.Table("id", "bigint", "customer", "int", "amount", "decimal(12, 2)", "day", "date",
	"at", "timestamp", "name", "string", "note", "string", "price", "double")

func benchData(size int) []byte {
	r := rand.New(rand.NewPCG(7, 7))
	words := []string{"compass", "rope, 12 mm", "lantern", "chart", "anchor \"small\"", "sail", "tar", "oak plank"}
	var b bytes.Buffer
	for id := 1; b.Len() < size; id++ {
		w := words[r.IntN(len(words))]
		if bytes.ContainsAny([]byte(w), "\"") {
			w = string(bytes.ReplaceAll([]byte(w), []byte{'"'}, []byte{'"', '"'}))
		}
		fmt.Fprintf(&b, "%d,%d,%d.%02d,2024-%02d-%02d,2024-%02d-%02d %02d:%02d:%02d,\"%s\",%s,%d.%d\n", id, r.IntN(100000), r.IntN(100000), r.IntN(100),
			1+r.IntN(12), 1+r.IntN(28), 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), w, []string{"", "at the pier", "call first"}[r.IntN(3)], r.IntN(1000), r.IntN(1000))
	}
	return b.Bytes()
}

func decodeAll(d *Decoder, data []byte, block int, emit func(*batch.Batch)) error {
	for at := 0; at < len(data) || d.Rows() > 0; {
		end := min(at+block, len(data))
		n, err := d.Decode(data[at:end], end == len(data))
		if err != nil {
			return err
		}
		at += n
		if n == 0 && !d.Full() && end < len(data) {
			block *= 2
			continue
		}
		if d.Full() || at == len(data) {
			if b := d.Finish(); b != nil {
				emit(b)
			}
		}
	}
	return nil
}

func csvOptions() Options {
	return Options{Delimiter: ",", Quote: '"', Formats: field.DefaultFormats()}
}

func BenchmarkDecode(b *testing.B) {
	data := benchData(16 << 20)
	s := batch.NewSchema(benchTable, 0)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	rows := 0
	for b.Loop() {
		d, err := NewDecoder(s, csvOptions(), nil, 0)
		if err != nil {
			b.Fatal(err)
		}
		rows = 0
		if err := decodeAll(d, data, 256<<10, func(x *batch.Batch) { rows += x.Rows }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}

func BenchmarkSplitOnly(b *testing.B) {
	data := benchData(16 << 20)
	o := csvOptions()
	sp := splitter{o: &o, fields: len(benchTable.Columns)}
	b.SetBytes(int64(len(data)))
	var bl block
	for b.Loop() {
		for at := 0; at < len(data); {
			sp.fast(&bl, data[at:min(at+256<<10, len(data))], true, 512)
			at += bl.used
			if bl.err != nil {
				at = len(data)
			}
		}
	}
}

// BenchmarkEncodingCSV is the yardstick: encoding/csv only reading the records.
func BenchmarkEncodingCSV(b *testing.B) {
	data := benchData(16 << 20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		r := stdcsv.NewReader(bytes.NewReader(data))
		r.ReuseRecord = true
		for {
			if _, err := r.Read(); err != nil {
				if !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
				break
			}
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	s := batch.NewSchema(benchTable, 0)
	rows := formattest.Rand(s, 8192, 1, "")
	e, err := NewEncoder(benchTable, nil, csvOptions(), QuoteMinimal, false)
	if err != nil {
		b.Fatal(err)
	}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		if buf, err = e.Encode(buf[:0], rows, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(buf)))
	b.ReportMetric(8192*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrows/s")
}
