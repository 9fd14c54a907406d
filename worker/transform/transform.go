package transform

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"

	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
)

// Factory is a registered transform plugin.
type Factory struct {
	Name    string
	Doc     string
	Options option.Spec
	// New checks the options against each other.
	New func(c Config) (Transform, error)
}

// Config is what a transform is made from.
type Config struct {
	Options option.Values
	// Inputs are the names of the inputs (plugin_output of the vertices before), for those that name them.
	Inputs []string
}

// Transform is one configured transform.
type Transform interface {
	// Output is the table that comes out for a table that goes in; a column that is missing or of the wrong
	// type is a fault.Mistake.
	Output(in *schema.Table) (*schema.Table, error)
	// Open makes the runner of one input table; out lays out what Output returned for it.
	Open(in, out *batch.Schema) (Runner, error)
}

// Runner applies a transform to batches of one table.
type Runner interface {
	Apply(ctx context.Context, b *batch.Batch) (*batch.Batch, error)
}

var registry struct {
	sync.RWMutex
	byName map[string]*Factory
}

// Register adds a transform; a second one of the same name is a mistake in the build.
func Register(f Factory) {
	registry.Lock()
	defer registry.Unlock()
	if registry.byName == nil {
		registry.byName = map[string]*Factory{}
	}
	key := strings.ToLower(f.Name)
	if registry.byName[key] != nil {
		panic(fmt.Sprintf("BUG: transform %s is registered twice", f.Name))
	}
	registry.byName[key] = &f
}

// Find looks a transform up without regard to case; nil when this build has none of that name.
func Find(name string) *Factory {
	registry.RLock()
	defer registry.RUnlock()
	return registry.byName[strings.ToLower(name)]
}

// All lists the registered transforms by name.
func All() []*Factory {
	registry.RLock()
	defer registry.RUnlock()
	out := make([]*Factory, 0, len(registry.byName))
	for _, f := range registry.byName {
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}
