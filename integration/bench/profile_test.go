package bench

import (
	"testing"
	"time"

	"strait/transport/stream"
)

// BenchmarkForward and BenchmarkHash are for profiles: the engine alone.
func BenchmarkForward(b *testing.B) { profileExchange(b, stream.Forward, 1) }

// BenchmarkHash is the hash exchange to eight consumers.
func BenchmarkHash(b *testing.B) { profileExchange(b, stream.Hash, 8) }

func profileExchange(b *testing.B, ex stream.Exchange, consumers int) {
	exchangeBatches() // made before the clock runs
	for _, codec := range []string{"none", "s2"} {
		b.Run(codec, func(b *testing.B) {
			b.ReportAllocs()
			rows, used := 0.0, cpu()
			for range b.N {
				rate, err := Exchange(codec, ex, consumers, 300*time.Millisecond)
				if err != nil {
					b.Fatal(err)
				}
				rows += rate * 0.3
			}
			b.ReportMetric(float64(cpu()-used)/rows, "cpu-ns/row")
		})
	}
}
