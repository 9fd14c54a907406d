// Command run measures figures and prints a line for each: name, value, yardstick, ratio, wanted. It exits with 1
// when one misses what is wanted, with 2 when one could not be measured.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"strait/integration/bench"
)

func main() {
	flag.IntVar(&bench.Rounds, "rounds", bench.Rounds, "measure both sides so often")
	flag.DurationVar(&bench.Round, "round", bench.Round, "how long one measurement of a rate takes")
	flag.Float64Var(&bench.Scale, "scale", bench.Scale, "the size of the figures of fleets: 1 is what is promised")
	flag.Parse()
	names := flag.Args()
	if len(names) == 0 {
		names = bench.Names()
	}
	code := 0
	for _, want := range names {
		matched := false
		for _, name := range bench.Names() {
			if name != want && !strings.HasPrefix(name, want+"/") {
				continue
			}
			matched = true
			figures, err := bench.Run(name)
			for _, f := range figures {
				fmt.Println(f)
				if !f.OK() {
					code = max(code, 1)
				}
			}
			if err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
				code = 2
			}
		}
		if !matched {
			fmt.Fprintf(os.Stderr, "no figures named %q; there are %s\n", want, strings.Join(bench.Names(), ", "))
			code = 2
		}
	}
	for _, a := range bench.Alarms {
		fmt.Fprintln(os.Stderr, a)
		code = 2
	}
	os.Exit(code)
}
