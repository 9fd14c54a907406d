package connector

import (
	"fmt"
	"sort"
	"strings"
	"sync"

	"strait/plan/fault"
)

// ErrNotInBuild is wrapped by errors about something SeaTunnel has and this build does not: a format, an
// option's value. `stctl check` warns about it, `check --strict` and `run` refuse it.
var ErrNotInBuild = fault.ErrNotInBuild

// The registry is filled from init functions of the plugin packages, linked by connector/all, and only read
// afterwards.
var registry struct {
	sync.RWMutex
	sources map[string]*SourceFactory
	sinks   map[string]*SinkFactory
}

// RegisterSource adds a source; a second one of the same name is a mistake in the build.
func RegisterSource(f SourceFactory) {
	registry.Lock()
	defer registry.Unlock()
	if registry.sources == nil {
		registry.sources = map[string]*SourceFactory{}
	}
	key := strings.ToLower(f.Name)
	if registry.sources[key] != nil {
		panic(fmt.Sprintf("BUG: source %s is registered twice", f.Name))
	}
	registry.sources[key] = &f
}

// RegisterSink adds a sink; a second one of the same name is a mistake in the build.
func RegisterSink(f SinkFactory) {
	registry.Lock()
	defer registry.Unlock()
	if registry.sinks == nil {
		registry.sinks = map[string]*SinkFactory{}
	}
	key := strings.ToLower(f.Name)
	if registry.sinks[key] != nil {
		panic(fmt.Sprintf("BUG: sink %s is registered twice", f.Name))
	}
	registry.sinks[key] = &f
}

// FindSource looks a source up without regard to case; nil when this build has none of that name.
func FindSource(name string) *SourceFactory {
	registry.RLock()
	defer registry.RUnlock()
	return registry.sources[strings.ToLower(name)]
}

// FindSink looks a sink up without regard to case; nil when this build has none of that name.
func FindSink(name string) *SinkFactory {
	registry.RLock()
	defer registry.RUnlock()
	return registry.sinks[strings.ToLower(name)]
}

// AllSources lists the registered sources by name.
func AllSources() []*SourceFactory {
	registry.RLock()
	defer registry.RUnlock()
	out := make([]*SourceFactory, 0, len(registry.sources))
	for _, f := range registry.sources {
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// AllSinks lists the registered sinks by name.
func AllSinks() []*SinkFactory {
	registry.RLock()
	defer registry.RUnlock()
	out := make([]*SinkFactory, 0, len(registry.sinks))
	for _, f := range registry.sinks {
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}
