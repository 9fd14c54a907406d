package csv

import (
	"bytes"
	stdcsv "encoding/csv"
	"os"
	"sort"
	"syscall"
	"testing"
	"time"

	"strait/transport/batch"
)

var sink uint64

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestSpeed prints the CPU time of the decoder beside that of encoding/csv, in turns. It runs on demand: a busy
// machine says nothing.
func TestSpeed(t *testing.T) {
	if os.Getenv("STRAIT_SPEED") == "" {
		t.Skip("set STRAIT_SPEED=1 to measure")
	}
	data := benchData(32 << 20)
	s := batch.NewSchema(benchTable, 0)
	o := csvOptions()
	sp := splitter{o: &o, fields: len(benchTable.Columns)}
	var bl block
	run := map[string]func(){
		"decode": func() {
			d, err := NewDecoder(s, csvOptions(), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := decodeAll(d, data, 256<<10, func(*batch.Batch) {}); err != nil {
				t.Fatal(err)
			}
		},
		"split": func() {
			for at := 0; at < len(data); at += bl.used {
				sp.fast(&bl, data[at:min(at+256<<10, len(data))], true, 512)
				if bl.used == 0 {
					break
				}
			}
		},
		"mask": func() {
			var m [16]uint64
			for at := 0; at+1024 <= len(data); at += 1024 {
				masks(m[:], data[at:], ',', '"')
				sink += m[0]
			}
		},
		"borders": func() {
			sc := NewScanner(bytes.NewReader(data), &o, int64(len(data)))
			for at := int64(0); at < int64(len(data)); {
				at, _ = sc.Border(at, at+8<<20)
			}
		},
		"encoding/csv": func() {
			r := stdcsv.NewReader(bytes.NewReader(data))
			r.ReuseRecord = true
			for {
				if _, err := r.Read(); err != nil {
					return
				}
			}
		},
	}
	times := map[string][]time.Duration{}
	for range 7 {
		for name, f := range run {
			from := cpuTime()
			f()
			times[name] = append(times[name], cpuTime()-from)
		}
	}
	for name, d := range times {
		sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
		t.Logf("%-14s %7.0f MB/s of CPU (median), best %7.0f", name, float64(len(data))/1e6/d[len(d)/2].Seconds(), float64(len(data))/1e6/d[0].Seconds())
	}
}
