package assert

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/value"
)

// ruleSet is what must hold for one table.
type ruleSet struct {
	table   *schema.Table // nil: it does not arrive
	path    string
	columns []columnRule
	rows    []rowRule
	catalog option.Values
	judge   bool // there is a catalog rule
}

type rowRule struct {
	kind  string
	value float64
}

func (r rowRule) String() string { return r.kind + " " + number(r.value) }

// columnRule is what must hold for the values of one column.
type columnRule struct {
	index    int
	name     string
	declared *schema.Type // nil: any type
	sure     bool         // every value of the column has the declared type
	rules    []valueRule
}

// valueRule is one rule; a rule of a job file with equals_to and rule_type becomes two.
type valueRule struct {
	kind  string
	bound float64
	want  arrow.Array // equals_to: its one value
	text  string      // for messages
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// compile reads the rules of one table against it. table may be nil where it does not arrive.
func compile(v option.Values, table *schema.Table, path string, l *fault.List) *ruleSet {
	s := &ruleSet{table: table, path: path}
	for _, r := range v.Subs("row_rules") {
		s.rows = append(s.rows, rowRule{kind: r.String("rule_type"), value: r.Float("rule_value")})
	}
	if v.Has("catalog_table_rule") {
		s.catalog, s.judge = v.Sub("catalog_table_rule"), true
	}
	if table == nil {
		return s
	}
	if s.judge {
		checkCatalogTypes(s.catalog, l)
	}
	for _, f := range v.Subs("field_rules") {
		if c, ok := compileColumn(f, table, l); ok {
			s.columns = append(s.columns, c)
		}
	}
	return s
}

func compileColumn(f option.Values, table *schema.Table, l *fault.List) (columnRule, bool) {
	before := l.Len()
	c := columnRule{name: f.String("field_name")}
	c.index = table.Index(c.name)
	if c.index < 0 {
		remedy := "the columns are " + strings.Join(table.Names(), ", ")
		if near := option.Nearest(c.name, table.Names()); near != "" {
			remedy = fmt.Sprintf("did you mean %q?", near)
		}
		l.Add(f.Node("field_name").Pos, f.Path("field_name"), fmt.Sprintf("table %q has no column %q", table.Path, c.name), remedy)
		return c, false
	}
	t := table.Columns[c.index].Type
	if n := f.Node("field_type"); n != nil && n.Kind != option.Null {
		if declared, ok := parseType(n, f.Path("field_type"), l); ok {
			c.declared, c.sure = &declared, alwaysFits(t, declared)
		}
	}
	for _, r := range f.Subs("field_value") {
		if r.Has("rule_type") {
			kind := r.String("rule_type")
			rule := valueRule{kind: kind, bound: r.Float("rule_value"), text: kind}
			if kind != ruleNull && kind != ruleNotNull {
				rule.text += " " + number(rule.bound)
			}
			if (kind == ruleMin || kind == ruleMax) && !(t.Kind >= schema.TinyInt && t.Kind <= schema.Decimal) && t.Kind != schema.Null {
				l.Add(r.Node("rule_type").Pos, r.Path("rule_type"), fmt.Sprintf("%s wants a number, column %s is of type %s", kind, c.name, t), "")
			}
			c.rules = append(c.rules, rule)
		}
		if n := r.Node("equals_to"); n != nil && n.Kind != option.Null {
			b := array.NewBuilder(memory.DefaultAllocator, batch.DataType(t))
			if err := (value.Reader{Exact: true}).Append(b, t, n); err != nil {
				l.Add(n.Pos, r.Path("equals_to"), fmt.Sprintf("column %s: %s", c.name, err), "")
				continue
			}
			want := b.NewArray()
			c.rules = append(c.rules, valueRule{kind: ruleEquals, want: want, text: "equals_to " + shorten(value.Text(t, want, 0))})
		}
	}
	return c, l.Len() == before
}

// parseType reads a type that stands as a word or as an object of fields.
func parseType(n *option.Node, path string, l *fault.List) (schema.Type, bool) {
	if n.Kind != option.Object {
		t, err := schema.ParseType(n.Text)
		var m *fault.Mistake
		if errors.As(err, &m) {
			l.Add(n.Pos, path, m.Found, m.Remedy)
		} else {
			l.AddError(err)
		}
		return t, err == nil
	}
	before := l.Len()
	block := &option.Node{Kind: option.Object, Pos: n.Pos, Fields: []option.Field{{Key: "fields", Value: n, Pos: n.Pos}}}
	t := schema.Parse(block, path, l)
	return schema.RowOf(t.Columns...), l.Len() == before
}

// alwaysFits says that every value of a column of type t has the declared type.
func alwaysFits(t, declared schema.Type) bool {
	switch {
	case t.Kind == schema.Null:
		return true
	case isDense(t.Kind) && isDense(declared.Kind):
		return true
	case t.Kind != declared.Kind:
		return false
	}
	switch t.Kind {
	case schema.Decimal:
		return t.Scale == declared.Scale && t.Precision <= declared.Precision
	case schema.Array:
		return alwaysFits(*t.Elem, *declared.Elem)
	case schema.Map:
		return alwaysFits(*t.Key, *declared.Key) && alwaysFits(*t.Elem, *declared.Elem)
	case schema.Row:
		if len(t.Fields) != len(declared.Fields) {
			return false
		}
		for i := range t.Fields {
			if !alwaysFits(t.Fields[i].Type, declared.Fields[i].Type) {
				return false
			}
		}
	}
	return true
}

// isDense: SeaTunnel does not tell these vectors apart.
func isDense(k schema.Kind) bool {
	return k == schema.BinaryVector || k == schema.FloatVector || k == schema.Float16Vector || k == schema.BFloat16Vector
}

// fits says that row i of a column of type t has the declared type; null has every type.
func fits(a arrow.Array, i int, t, declared schema.Type) bool {
	if value.IsNull(a, i) || alwaysFits(t, declared) {
		return true
	}
	if t.Kind != declared.Kind {
		return false
	}
	switch t.Kind {
	case schema.Decimal:
		digits := strings.TrimLeft(strings.ReplaceAll(value.Text(t, a, i), ".", ""), "-0")
		return t.Scale == declared.Scale && len(digits) <= declared.Precision
	case schema.Array:
		l := a.(*array.List)
		from, to := l.ValueOffsets(i)
		return allFit(l.ListValues(), from, to, *t.Elem, *declared.Elem)
	case schema.Map:
		m := a.(*array.Map)
		from, to := m.ValueOffsets(i)
		return allFit(m.Keys(), from, to, *t.Key, *declared.Key) && allFit(m.Items(), from, to, *t.Elem, *declared.Elem)
	case schema.Row:
		s := a.(*array.Struct)
		if len(t.Fields) != len(declared.Fields) {
			return false
		}
		for f := range t.Fields {
			if !fits(s.Field(f), i, t.Fields[f].Type, declared.Fields[f].Type) {
				return false
			}
		}
		return true
	}
	return false
}

func allFit(a arrow.Array, from, to int64, t, declared schema.Type) bool {
	for i := from; i < to; i++ {
		if !fits(a, int(i), t, declared) {
			return false
		}
	}
	return true
}

func shorten(s string) string {
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:297], "") + "..."
	}
	return s
}
