package bench

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"time"
)

// Figure is one measured promise.
type Figure struct {
	Name      string
	Unit      string  // of Value and Yardstick
	Value     float64 // the engine
	Yardstick float64 // the bare loop; 0 when there is none
	Ratio     float64 // what is compared with Wanted
	Wanted    float64
	AtMost    bool // Ratio must not exceed Wanted; else it must reach it
	How       string
}

// AtMost is a figure that has to stay at or below a limit, which stands where others have the yardstick.
func AtMost(name, unit string, value, limit float64, how string) Figure {
	f := Figure{Name: name, Unit: unit, Value: value, Yardstick: limit, Ratio: value / limit, Wanted: 1, AtMost: true, How: how}
	if limit == 0 { // nothing of it is allowed
		f.Ratio, f.Wanted = math.Abs(value), 0.5
	}
	return f
}

// Told is a figure of which nothing is promised.
func Told(name, unit string, value float64, how string) Figure {
	return Figure{Name: name, Unit: unit, Value: value, How: how}
}

// OK says that the promise is kept.
func (f Figure) OK() bool {
	if f.AtMost {
		return f.Ratio <= f.Wanted
	}
	return f.Ratio >= f.Wanted
}

// String is the line that scripts/bench prints; how it was taken follows in a second one.
func (f Figure) String() string {
	how := ""
	if f.How != "" {
		how = "\n    " + f.How
	}
	if f.Wanted == 0 {
		return fmt.Sprintf("%-32s %14.2f %14s %-10s%s", f.Name, f.Value, "", f.Unit, how)
	}
	sign, verdict := ">=", "ok"
	if f.AtMost {
		sign = "<="
	}
	if !f.OK() {
		verdict = "BELOW"
		if f.AtMost {
			verdict = "ABOVE"
		}
	}
	return fmt.Sprintf("%-32s %14.2f %14.2f %-10s ratio %6.3f  wanted %s %5.2f  %s%s", f.Name, f.Value, f.Yardstick, f.Unit, f.Ratio, sign, f.Wanted, verdict, how)
}

var registry = map[string]func() ([]Figure, error){}

// Register adds a group of figures; call it from init. A second group of that name is a mistake in the build.
func Register(name string, run func() ([]Figure, error)) {
	if registry[name] != nil {
		panic(fmt.Sprintf("BUG: figures %s are registered twice", name))
	}
	registry[name] = run
}

// Names lists the groups.
func Names() []string {
	var out []string
	for name := range registry {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// Run measures one group.
func Run(name string) ([]Figure, error) {
	run := registry[name]
	if run == nil {
		return nil, fmt.Errorf("no figures named %q; there are %v", name, Names())
	}
	return run()
}

// Rounds is how often Alternate measures each side, and Round how long one measurement of a rate takes.
var (
	Rounds = 7
	Round  = time.Second
	// Scale is the size of the figures of fleets: 1 is what the project promises.
	Scale = 1.0
)

// scaled is n at the scale of this run, at least least.
func scaled(n, least int) int { return max(int(float64(n)*Scale+0.5), least) }

// Alternate measures both sides in turn, Rounds times, after one unmeasured turn. It gives the medians, and the
// median of the ratios a/b of each turn: neighbours in time share what else the machine does.
func Alternate(a, b func() (float64, error)) (medianA, medianB, ratio float64, err error) {
	var as, bs, ratios []float64
	for i := -1; i < Rounds; i++ {
		x, err := a()
		if err != nil {
			return 0, 0, 0, err
		}
		y, err := b()
		if err != nil {
			return 0, 0, 0, err
		}
		if i >= 0 {
			as, bs, ratios = append(as, x), append(bs, y), append(ratios, x/y)
		}
	}
	return Median(as), Median(bs), Median(ratios), nil
}

// Median is the middle of the values.
func Median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
