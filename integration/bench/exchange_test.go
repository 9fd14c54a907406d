package bench

import (
	"syscall"
	"testing"
	"time"

	"strait/integration/bench/yardstick"
	"strait/transport/stream"
)

// cpu is the processor time that the process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkExchange reports rows per second and processor time per row, of the engine and the bare loop. The
// processor time says more on a busy machine.
func BenchmarkExchange(b *testing.B) {
	exchangeBatches() // made before the clock runs
	dur := 700 * time.Millisecond
	if testing.Short() {
		dur = 20 * time.Millisecond
	}
	f := func(name string, run func() (float64, error)) {
		b.Run(name, func(b *testing.B) {
			var rate, perRow float64
			for range b.N {
				before, start := cpu(), time.Now()
				r, err := run()
				if err != nil {
					b.Fatal(err)
				}
				rate = r
				perRow = float64(cpu()-before) / (r * time.Since(start).Seconds())
			}
			b.ReportMetric(rate/1e6, "Mrows/s")
			b.ReportMetric(perRow, "cpu-ns/row")
		})
	}
	for _, codec := range []string{"none", "s2"} {
		f("forward/"+codec, func() (float64, error) { return Exchange(codec, stream.Forward, 1, dur) })
		f("forward/"+codec+"/bare", func() (float64, error) {
			return yardstick.Run(yardstick.Options{S2: codec == "s2", For: dur, Data: columns()})
		})
		f("hash8/"+codec, func() (float64, error) { return Exchange(codec, stream.Hash, 8, dur) })
		f("hash8/"+codec+"/bare", func() (float64, error) {
			return yardstick.Run(yardstick.Options{S2: codec == "s2", To: 8, For: dur, Data: columns()})
		})
	}
}
