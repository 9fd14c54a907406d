package yardstick

import (
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	data := Generate(8, 8192)
	for _, o := range []Options{{}, {S2: true}, {To: 8}, {S2: true, To: 8}} {
		o.For, o.Data = time.Second, data
		if testing.Short() {
			o.For = 50 * time.Millisecond
		}
		rate, err := Run(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("s2 %v, gathered to %d: %.1f M rows/s", o.S2, o.To, rate/1e6)
	}
}
