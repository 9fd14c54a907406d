package config

import (
	"fmt"

	"github.com/gurkankaymak/hocon"
)

// The library's values, so that no other file names it.
type (
	tree   = hocon.Value
	object = hocon.Object
	array  = hocon.Array
	text   = hocon.String
)

// parseTree hands the sanitised text to the library, which nests and merges it. The text holds generated names
// only, so an error or a panic here is a fault of ours, never of the user's file.
func parseTree(sanitised string) (root object, err error) {
	defer func() {
		if p := recover(); p != nil {
			root, err = nil, fmt.Errorf("BUG: the HOCON library panics on sanitised text: %v", p)
		}
	}()
	conf, err := hocon.ParseString(sanitised)
	if err != nil {
		return nil, fmt.Errorf("BUG: the HOCON library refuses sanitised text: %w", err)
	}
	root, ok := conf.GetRoot().(object)
	if !ok {
		return nil, fmt.Errorf("BUG: the HOCON library gives %T for the root of sanitised text", conf.GetRoot())
	}
	return root, nil
}
