// Command run measures figures and prints a line for each: name, value, yardstick, ratio, wanted. It exits with 1
// when one misses what is wanted, with 2 when one could not be measured.
package main

import (
	"fmt"
	"os"
	"strings"

	"strait/integration/bench"
)

func main() {
	names := os.Args[1:]
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
	os.Exit(code)
}
