package transform

import (
	"fmt"
	"strings"

	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
)

// Column finds a column that an option names. A column that is not there is a mistake at the option, with the
// nearest name.
func Column(v option.Values, name string, in *schema.Table, column string) (int, error) {
	if i := in.Index(column); i >= 0 {
		return i, nil
	}
	remedy := "the columns are " + strings.Join(in.Names(), ", ")
	if near := option.Nearest(column, in.Names()); near != "" {
		remedy = fmt.Sprintf("did you mean %q?", near)
	}
	return -1, Mistake(v, name, fmt.Sprintf("table %q has no column %q", in.Path, column), remedy)
}

// Mistake is a mistake in the value of an option.
func Mistake(v option.Values, name, found, remedy string) error {
	m := &fault.Mistake{Path: v.Path(name), Found: found, Remedy: remedy}
	if n := v.Node(name); n != nil {
		m.Pos = n.Pos
	} else if v.Raw() != nil {
		m.Pos = v.Raw().Pos
	}
	return m
}
