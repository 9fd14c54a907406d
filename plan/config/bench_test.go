package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// BenchmarkParse reads a typical job file of SeaTunnel's and one with 10,000 literal rows.
func BenchmarkParse(b *testing.B) {
	typical, err := os.ReadFile("testdata/typical.good.conf")
	if err != nil {
		b.Fatal(err)
	}
	rows := "source { FakeSource { rows = [\n" + strings.Repeat("  { kind = INSERT, fields = [1, \"abc\", 2.5, 2024-01-02] }\n", 10_000) + "] } }\nsink { Console { } }\n"
	for _, c := range []struct {
		name string
		text []byte
	}{{"typical", typical}, {"rows", []byte(rows)}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				if _, _, err := Parse(c.text, Options{File: filepath.Base(c.name)}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
