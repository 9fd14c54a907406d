package assert

import (
	"fmt"
	"slices"
	"strings"

	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
)

// checkCatalogTypes reports types that cannot be read.
func checkCatalogTypes(v option.Values, l *fault.List) {
	for _, c := range v.Subs("column_rule") {
		if n := c.Node("type"); n != nil {
			parseType(n, c.Path("type"), l)
		}
	}
}

// judgeCatalog compares a table with its catalog rule and lists what differs.
func (s *ruleSet) judgeCatalog() (faults []string) {
	t, v := s.table, s.catalog
	add := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf("table %q: ", s.path)+fmt.Sprintf(format, args...))
	}
	if want := v.String("table_path"); want != "" && want != t.Path.String() {
		add("table_path: the table is not %q", want)
	}
	if id := v.Sub("table_identifier_rule"); v.Has("table_identifier_rule") && id.String("table") != t.Path.String() {
		add("table_identifier_rule: the table is not %q", id.String("table"))
	}
	if v.Has("primary_key_rule") {
		s.primaryKey(v.Sub("primary_key_rule"), add)
	}
	if v.Has("constraint_key_rule") {
		var want, have []string
		for _, k := range v.Subs("constraint_key_rule") {
			want = append(want, constraintRule(k, t.Constraints))
		}
		for _, k := range t.Constraints {
			have = append(have, constraintText(k))
		}
		if !sameSet(want, have) {
			add("constraint_key_rule: the keys are %s, not %s", listed(have), listed(want))
		}
	}
	if v.Has("column_rule") {
		s.columnRules(v.Subs("column_rule"), add)
	}
	return faults
}

func (s *ruleSet) primaryKey(v option.Values, add func(string, ...any)) {
	pk := s.table.PrimaryKey
	if pk == nil {
		add("primary_key_rule: it has no primary key")
		return
	}
	if v.Has("primary_key_name") && v.String("primary_key_name") != pk.Name {
		add("primary_key_rule: the key is named %q, not %q", pk.Name, v.String("primary_key_name"))
	}
	if want := v.Strings("primary_key_columns"); len(want) > 0 && !sameSet(want, pk.Columns) {
		add("primary_key_rule: the key columns are %s, not %s", listed(pk.Columns), listed(want))
	}
}

// constraintRule writes a wanted key as constraintText does. What it does not state is taken from the key of
// that name.
func constraintRule(v option.Values, have []schema.Constraint) string {
	k := schema.Constraint{Name: v.String("constraint_key_name"), Type: v.String("constraint_key_type")}
	var same schema.Constraint
	for _, h := range have {
		if h.Name == k.Name || !v.Has("constraint_key_name") && len(have) == 1 {
			same = h
		}
	}
	if !v.Has("constraint_key_name") {
		k.Name = same.Name
	}
	if !v.Has("constraint_key_type") {
		k.Type = same.Type
	}
	if !v.Has("constraint_key_columns") {
		k.Columns = same.Columns
	}
	for i, c := range v.Subs("constraint_key_columns") {
		col := schema.ConstraintColumn{Name: c.String("constraint_key_column_name"), Sort: c.String("constraint_key_sort_type")}
		if !c.Has("constraint_key_sort_type") && i < len(same.Columns) {
			col.Sort = same.Columns[i].Sort
		}
		k.Columns = append(k.Columns, col)
	}
	return constraintText(k)
}

func constraintText(k schema.Constraint) string {
	cols := make([]string, len(k.Columns))
	for i, c := range k.Columns {
		cols[i] = strings.TrimSpace(c.Name + " " + c.Sort)
	}
	return fmt.Sprintf("%s %s(%s)", k.Type, k.Name, strings.Join(cols, ", "))
}

func (s *ruleSet) columnRules(rules []option.Values, add func(string, ...any)) {
	var names []string
	for _, r := range rules {
		names = append(names, r.String("name"))
	}
	if !sameSet(names, s.table.Names()) {
		add("column_rule: the columns are %s, not %s", listed(s.table.Names()), listed(names))
	}
	for _, r := range rules {
		i := s.table.Index(r.String("name"))
		if i < 0 {
			continue
		}
		c := s.table.Columns[i]
		differs := func(what string, have, want any) {
			add("column_rule: column %s has %s %v, not %v", c.Name, what, have, want)
		}
		if want, ok := parseType(r.Node("type"), "", &fault.List{}); ok && !sameType(c.Type, want) {
			differs("type", c.Type, want)
		}
		if r.Has("column_length") && r.Int("column_length") != c.Length {
			differs("length", c.Length, r.Int("column_length"))
		}
		if r.Has("column_scale") {
			have := c.Scale
			if c.Type.Kind == schema.Time || c.Type.Kind == schema.Timestamp || c.Type.Kind == schema.TimestampTZ {
				have = c.Type.Scale
			}
			if int(r.Int("column_scale")) != have {
				differs("scale", have, r.Int("column_scale"))
			}
		}
		if r.Has("nullable") && r.Bool("nullable") != c.Nullable {
			differs("nullable", c.Nullable, r.Bool("nullable"))
		}
		if r.Has("comment") && r.String("comment") != c.Comment {
			differs("comment", c.Comment, r.String("comment"))
		}
		if r.Has("default_value") {
			have, want := "none", r.Node("default_value").Text
			if c.Default != nil {
				have = *c.Default
			}
			if c.Default == nil || have != want {
				differs("default", have, want)
			}
		}
	}
}

// sameType compares types without the digits behind the second, which SeaTunnel's types do not have.
func sameType(a, b schema.Type) bool { return noDigits(a).Equal(noDigits(b)) }

func noDigits(t schema.Type) schema.Type {
	switch t.Kind {
	case schema.Time, schema.Timestamp, schema.TimestampTZ:
		t.Scale = 0
	case schema.Array:
		return schema.ArrayOf(noDigits(*t.Elem))
	case schema.Map:
		return schema.MapOf(noDigits(*t.Key), noDigits(*t.Elem))
	case schema.Row:
		fields := make([]schema.Column, len(t.Fields))
		for i, f := range t.Fields {
			fields[i] = schema.Col(f.Name, noDigits(f.Type))
		}
		return schema.RowOf(fields...)
	}
	return t
}

func sameSet(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

func listed(s []string) string {
	if len(s) == 0 {
		return "none"
	}
	return strings.Join(s, ", ")
}
