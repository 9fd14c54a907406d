package schema

import (
	"fmt"
	"slices"
	"strings"

	"strait/plan/fault"
	"strait/plan/option"
)

// Block declares the keys of a schema block. Parse decodes by it; a plugin declares its option `schema` as an
// object without Sub and calls Parse, which also checks the parts against each other.
var Block = option.Spec{Options: []option.Option{
	{Name: "table", Type: option.TString, Doc: "Name of the table: table, database.table or database.schema.table."},
	{Name: "schema_first", Type: option.TBool, Default: "false", Doc: "Read a.b in table as schema.table, not as database.table."},
	{Name: "comment", Type: option.TString, Doc: "Comment of the table."},
	{Name: "fields", Type: option.TAny, Doc: "Columns in short: name = type. Nested rows are objects."},
	{Name: "columns", Type: option.TObjects, Sub: &columnBlock, Doc: "Columns in full."},
	{Name: "primaryKey", Aliases: []string{"primary_key"}, Type: option.TObject, Doc: "The columns that identify a row.", Sub: &option.Spec{Options: []option.Option{
		{Name: "name", Aliases: []string{"primary_key_name"}, Type: option.TString},
		{Name: "columnNames", Aliases: []string{"column_names", "primary_key_columns"}, Type: option.TStrings},
	}}},
	{Name: "constraintKeys", Aliases: []string{"constraint_keys"}, Type: option.TObjects, Sub: &constraintBlock, Doc: "Indexes and other keys."},
}, Ignored: map[string]string{"catalog_name": "tables have no catalog here"}}

var columnBlock = option.Spec{Options: []option.Option{
	{Name: "name", Type: option.TString, Required: true},
	{Name: "type", Type: option.TAny, Required: true},
	{Name: "nullable", Type: option.TBool, Default: "true"},
	{Name: "columnLength", Aliases: []string{"column_length"}, Type: option.TInt, Default: "0", Min: option.Bound(0)},
	{Name: "columnScale", Aliases: []string{"column_scale"}, Type: option.TInt, Min: option.Bound(0), Max: option.Bound(1 << 30)},
	{Name: "defaultValue", Aliases: []string{"default_value"}, Type: option.TAny},
	{Name: "comment", Type: option.TString},
}}

var constraintBlock = option.Spec{Options: []option.Option{
	{Name: "constraintName", Aliases: []string{"constraint_key_name", "name"}, Type: option.TString},
	{Name: "constraintType", Aliases: []string{"constraint_key_type", "type"}, Type: option.TEnum, Required: true,
		Enum: []string{"INDEX_KEY", "UNIQUE_KEY", "FOREIGN_KEY", "VECTOR_INDEX_KEY"}},
	{Name: "constraintColumns", Aliases: []string{"constraint_key_columns"}, Type: option.TObjects, Required: true, Sub: &option.Spec{Options: []option.Option{
		{Name: "columnName", Aliases: []string{"column_name", "constraint_key_column_name"}, Type: option.TString, Required: true},
		{Name: "sortType", Aliases: []string{"sort_type", "constraint_key_sort_type"}, Type: option.TEnum, Enum: []string{"ASC", "DESC"}, Default: "ASC"},
	}}},
}}

// Parse reads a schema block. path names the block in messages, such as source[0] (FakeSource): schema. Every
// mistake goes to l; the table is usable only when none was added. The path of the table is zero where the
// block has no `table`: the planner then names it after plugin_output.
func Parse(n *option.Node, path string, l *fault.List) *Table {
	t := &Table{}
	if n == nil {
		l.Add(fault.Position{}, path, "the schema is missing", "write schema { fields { name = type } }")
		return t
	}
	if n.Kind != option.Object {
		l.Add(n.Pos, path, "found "+n.Describe()+" where a schema belongs", "write schema { fields { name = type } }")
		return t
	}
	start := l.Len()
	v := Block.Decode(n, path, l)
	if v.Has("table") {
		t.Path = ParsePath(v.String("table"))
		if t.Path.Table == "" {
			l.Add(v.Node("table").Pos, path+".table", fmt.Sprintf("%q does not name a table", v.String("table")), `write table = "database.table"`)
		}
		if v.Bool("schema_first") && t.Path.Schema == "" {
			t.Path.Schema, t.Path.Database = t.Path.Database, ""
		}
	}
	t.Comment = v.String("comment")
	fields, columns := v.Node("fields"), v.Node("columns")
	switch {
	case fields != nil && columns != nil:
		l.Add(columns.Pos, path, "both fields and columns are set", "keep one of them")
	case fields != nil:
		t.Columns = parseFields(fields, path+".fields", l)
	case columns != nil:
		t.Columns = parseColumns(v, path, l)
	default:
		l.Add(n.Pos, path, "neither fields nor columns is set", "write fields { name = type }")
	}
	k := keys{table: t, path: path, l: l, complete: l.Len() == start}
	k.primary(v)
	k.constraints(v)
	return t
}

func parseFields(n *option.Node, path string, l *fault.List) []Column {
	if n.Kind != option.Object {
		l.Add(n.Pos, path, "found "+n.Describe()+" where the fields belong", "write fields { name = type }")
		return nil
	}
	if len(n.Fields) == 0 {
		l.Add(n.Pos, path, "there are no fields", "write fields { name = type }")
	}
	var out []Column
	seen := map[string]bool{}
	for _, f := range n.Fields {
		at := path + "." + f.Key
		if f.Key == "" {
			l.Add(f.Pos, path, "a field has an empty name", "give it a name")
			continue
		}
		if seen[f.Key] {
			l.Add(f.Pos, at, "the field stands twice", "remove one of them")
			continue
		}
		seen[f.Key] = true
		if t, ok := parseTypeNode(f.Value, at, l); ok {
			out = append(out, Col(f.Key, t))
		}
	}
	return out
}

// parseTypeNode reads a type that stands as a word or as an object of fields (a row).
func parseTypeNode(n *option.Node, path string, l *fault.List) (Type, bool) {
	switch n.Kind {
	case option.Object:
		before := l.Len()
		fields := parseFields(n, path, l)
		return RowOf(fields...), l.Len() == before
	case option.String:
		t, err := ParseType(n.Text)
		if err != nil {
			m := err.(*fault.Mistake)
			l.Add(n.Pos, path, m.Found, m.Remedy)
			return Type{}, false
		}
		return t, true
	case option.Null:
		l.Add(n.Pos, path, "the type is missing", `write a type; the type null stands in quotes: "null"`)
	default:
		l.Add(n.Pos, path, "found "+n.Describe()+" where a type belongs", "write a type such as string or int")
	}
	return Type{}, false
}

func parseColumns(v option.Values, path string, l *fault.List) []Column {
	subs := v.Subs("columns")
	if len(subs) == 0 {
		if n := v.Node("columns"); n.Kind == option.List {
			l.Add(n.Pos, path+".columns", "there are no columns", "write columns = [ { name = …, type = … } ]")
		}
		return nil
	}
	var out []Column
	seen := map[string]bool{}
	for _, c := range subs {
		name, tn := c.String("name"), c.Node("type")
		if name == "" && c.Has("name") {
			l.Add(c.Raw().Pos, c.Path("name"), "the name is empty", "give the column a name")
		}
		if name != "" && seen[name] {
			l.Add(c.Raw().Pos, c.Path("name"), fmt.Sprintf("column %q stands twice", name), "remove one of them")
			continue
		}
		seen[name] = true
		if name == "" || !c.Has("type") {
			continue
		}
		t, ok := parseTypeNode(tn, c.Path("type"), l)
		if !ok {
			continue
		}
		col := Column{Name: name, Type: t, Nullable: c.Bool("nullable"), Length: c.Int("columnLength"), Scale: int(c.Int("columnScale")), Comment: c.String("comment")}
		if c.Has("columnScale") && (t.Kind == Time || t.Kind == Timestamp || t.Kind == TimestampTZ) {
			if col.Scale > 9 {
				l.Add(c.Node("columnScale").Pos, c.Path("columnScale"), fmt.Sprintf("%d digits after the second are too many", col.Scale), "it may be 0 to 9")
				continue
			}
			col.Type.Scale = col.Scale
		}
		if d := c.Node("defaultValue"); d != nil && d.Kind != option.Null {
			if d.Kind == option.Object || d.Kind == option.List {
				l.Add(d.Pos, c.Path("defaultValue"), "found "+d.Describe()+" where a single value belongs", "write the default as text")
				continue
			}
			text := d.Text
			col.Default = &text
		}
		out = append(out, col)
	}
	return out
}

// keys reads the keys of a table and checks that they name columns it has.
type keys struct {
	table    *Table
	path     string
	l        *fault.List
	complete bool // every column could be read; otherwise those mistakes come first
}

func (k *keys) primary(v option.Values) {
	if !v.Has("primaryKey") {
		return
	}
	pk := v.Sub("primaryKey")
	at := k.path + ".primaryKey"
	names := pk.Strings("columnNames")
	if len(names) == 0 {
		k.l.Add(pk.Raw().Pos, at, "the primary key has no columns", `write columnNames = ["id"]`)
		return
	}
	for i, c := range names {
		k.check(c, names[:i], pk.Raw(), at+".columnNames")
	}
	k.table.PrimaryKey = &PrimaryKey{Name: pk.String("name"), Columns: names}
}

func (k *keys) constraints(v option.Values) {
	for i, c := range v.Subs("constraintKeys") {
		at := fmt.Sprintf("%s.constraintKeys[%d].constraintColumns", k.path, i)
		out := Constraint{Name: c.String("constraintName"), Type: c.String("constraintType")}
		var before []string
		for _, col := range c.Subs("constraintColumns") {
			name := col.String("columnName")
			if name == "" {
				continue // reported as missing
			}
			k.check(name, before, col.Raw(), at)
			before = append(before, name)
			out.Columns = append(out.Columns, ConstraintColumn{Name: name, Sort: col.String("sortType")})
		}
		if c.Has("constraintColumns") && len(c.Subs("constraintColumns")) == 0 {
			k.l.Add(c.Raw().Pos, at, "the constraint has no columns", "write constraintColumns = [ { columnName = id } ]")
		}
		k.table.Constraints = append(k.table.Constraints, out)
	}
}

func (k *keys) check(name string, before []string, n *option.Node, at string) {
	if slices.Contains(before, name) {
		k.l.Add(n.Pos, at, fmt.Sprintf("column %q stands twice", name), "remove one of them")
		return
	}
	if !k.complete || k.table.Index(name) >= 0 {
		return
	}
	remedy := "the columns are " + strings.Join(k.table.Names(), ", ")
	if near := option.Nearest(name, k.table.Names()); near != "" {
		remedy = fmt.Sprintf("did you mean %q?", near)
	}
	k.l.Add(n.Pos, at, fmt.Sprintf("the table has no column %q", name), remedy)
}
