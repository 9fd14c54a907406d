package schema

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"strait/plan/fault"
	"strait/plan/option"
)

// obj builds an object from keys and values in turn: a string, a list made by list, or another object. Each
// field stands on its own line.
func obj(kv ...any) *option.Node {
	n := &option.Node{Kind: option.Object, Pos: fault.Position{File: "t.conf", Line: 1}}
	for i := 0; i < len(kv); i += 2 {
		pos := fault.Position{File: "t.conf", Line: i/2 + 2}
		v, ok := kv[i+1].(*option.Node)
		if !ok {
			v = &option.Node{Kind: option.String, Text: kv[i+1].(string), Pos: pos}
		}
		n.Fields = append(n.Fields, option.Field{Key: kv[i].(string), Value: v, Pos: pos})
	}
	return n
}

func list(items ...any) *option.Node {
	n := &option.Node{Kind: option.List}
	for _, it := range items {
		c, ok := it.(*option.Node)
		if !ok {
			c = &option.Node{Kind: option.String, Text: it.(string)}
		}
		n.List = append(n.List, c)
	}
	return n
}

func TestParseType(t *testing.T) {
	ok := func(text, want string) {
		t.Helper()
		got, err := ParseType(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got.String() != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
		again, err := ParseType(got.String())
		if err != nil || !again.Equal(got) {
			t.Errorf("%q: %s does not come back: %s, %v", text, got, again, err)
		}
	}
	for k := Boolean; k < Array; k++ {
		if k != Decimal {
			ok(strings.ToUpper(k.String()), k.String())
		}
	}
	for _, word := range []string{"null", "binary_vector", "float_vector", "float16_vector", "bfloat16_vector", "sparse_float_vector"} {
		ok(word, word)
	}
	ok(" Int ", "int")
	ok("long", "bigint")
	ok("SHORT", "smallint")
	ok("byte", "tinyint")
	ok("decimal(38, 18)", "decimal(38, 18)")
	ok("Decimal ( 10 ,2 )", "decimal(10, 2)")
	ok("timestamp(3)", "timestamp(3)")
	ok("timestamp(6)", "timestamp")
	ok("time(0)", "time(0)")
	ok("timestamp_tz(9)", "timestamp_tz(9)")
	ok("array<int>", "array<int>")
	ok("ARRAY < array<decimal(4,1)> >", "array<array<decimal(4, 1)>>")
	ok("map<string,float>", "map<string, float>")
	ok("map<decimal(10,2), array<int>>", "map<decimal(10, 2), array<int>>")
	ok("map<string, map<string, string>>", "map<string, map<string, string>>")
	ok("map<string, {c_int=int\nc_string=string}>", "map<string, row<c_int int, c_string string>>")
	ok("map<string, {c_int=int,c_string=string,c_row={c_int=int}}>", "map<string, row<c_int int, c_string string, c_row row<c_int int>>>")
	ok(`map<string, {"c_int":"int","c_String":"string"}>`, "map<string, row<c_int int, c_String string>>")
	ok("{a { b = int }\n\n c: \"map<string, decimal(3,1)>\",}", "row<a row<b int>, c map<string, decimal(3, 1)>>")
	ok(`row<"a b" int, c array<row<d date>>>`, `row<"a b" int, c array<row<d date>>>`)

	bad := func(text, want string) {
		t.Helper()
		got, err := ParseType(text)
		if err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		} else if err.Error() != want {
			t.Errorf("%q: got  %s\nwant %s", text, err, want)
		}
	}
	bad("", "the type is empty; write a type such as string or int")
	bad("strnig", `"strnig" is not a type; did you mean string?`)
	bad("varchar(20)", `"varchar" is not a type; the types are null, boolean, tinyint, smallint, int, bigint, float, double, decimal, string, bytes, date, time, timestamp, timestamp_tz, array, map, row, binary_vector, float_vector, float16_vector, bfloat16_vector, sparse_float_vector`)
	bad("decimal", `decimal has no precision and scale; write precision and scale: "decimal(10, 2)"`)
	bad("decimal(10)", `decimal has no scale; write precision and scale: "decimal(10, 2)"`)
	bad("decimal(a, 2)", `precision and scale of the decimal cannot be read in "decimal(a, 2)"; write precision and scale: "decimal(10, 2)"`)
	bad("decimal(0, 0)", "decimal precision 0 is out of range; it may be 1 to 76")
	bad("decimal(77, 0)", "decimal precision 77 is out of range; it may be 1 to 76")
	bad("decimal(5, 6)", "decimal scale 6 is out of range; it may be 0 to the precision, 5")
	bad("timestamp(10)", "timestamp scale 10 is out of range; it may be 0 to 9")
	bad("array", `array has no element type; write for example "array<int>"`)
	bad("array<int", `array is not closed with '>' in "array<int"; add the '>'`)
	bad("array<itn>", `"itn" is not a type; did you mean int?`)
	bad("array<>", `a type is missing in "array<>"; write a type such as string or int`)
	bad("map<string>", `map has no value type in "map<string>"; write for example "map<string, int>"`)
	bad("map<array<int>, int>", "array<int> cannot be the key of a map; use a plain type such as string or bigint")
	bad("int(4)", `"int(4)" is not a type: "(4)" is left over behind int`)
	bad("row", "row has no fields; write the fields as an object: { a = int, b = string }")
	bad("{}", "the row has no fields; write the fields as an object: { a = int, b = string }")
	bad("{a=int", `row is not closed with '}' in "{a=int"; add the '}'`)
	bad("{a=int b=int}", `a comma is missing behind field "a" in "{a=int b=int}"; separate fields with commas`)
	bad("{a=int,a=string}", `field "a" stands twice in the row; give each field its own name`)
	bad("{a=itn}", `field "a": "itn" is not a type; did you mean int?`)
	bad("{a}", `field "a": it has no type; write name = type`)
	bad(strings.Repeat("array<", 40)+"int", "the type nests deeper than 32 levels; flatten it")
}

func TestParse(t *testing.T) {
	n := obj(
		"table", "db.s.orders", "comment", "all orders",
		"columns", list(
			obj("name", "id", "type", "BIGINT", "nullable", "false", "comment", "key"),
			obj("name", "at", "type", "timestamp", "columnScale", "3"),
			obj("name", "who", "type", "string", "columnLength", "20", "defaultValue", "nobody"),
			obj("name", "amount", "type", "decimal(10, 2)"),
			obj("name", "where", "type", obj("city", "string")),
		),
		"primaryKey", obj("name", "pk", "columnNames", list("id")),
		"constraintKeys", list(obj("constraintName", "by_at", "constraintType", "index_key",
			"constraintColumns", list(obj("columnName", "at", "sortType", "desc"), obj("columnName", "who")))),
	)
	var l fault.List
	got := Parse(n, "source[0] (X): schema", &l)
	if l.Err() != nil {
		t.Fatal(l.Err())
	}
	def := "nobody"
	want := &Table{
		Path: Path{"db", "s", "orders"}, Comment: "all orders",
		Columns: []Column{
			{Name: "id", Type: Of(BigInt), Comment: "key"},
			{Name: "at", Type: Type{Kind: Timestamp, Scale: 3}, Nullable: true, Scale: 3},
			{Name: "who", Type: Of(String), Nullable: true, Length: 20, Default: &def},
			{Name: "amount", Type: DecimalOf(10, 2), Nullable: true},
			{Name: "where", Type: RowOf(Col("city", Of(String))), Nullable: true},
		},
		PrimaryKey:  &PrimaryKey{Name: "pk", Columns: []string{"id"}},
		Constraints: []Constraint{{Name: "by_at", Type: "INDEX_KEY", Columns: []ConstraintColumn{{"at", "DESC"}, {"who", "ASC"}}}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseFields(t *testing.T) {
	var l fault.List
	got := Parse(obj("table", "s.t", "schema_first", "true",
		"fields", obj("row.num", "int", "c", "map<string, {a=int}>", "r", obj("x", "array<string>", "y", obj("z", "null"))),
		"primary_key", obj("primary_key_columns", list("row.num"))), "p", &l)
	if l.Err() != nil {
		t.Fatal(l.Err())
	}
	want := &Table{Path: Path{Schema: "s", Table: "t"}, Columns: []Column{
		Col("row.num", Of(Int)),
		Col("c", MapOf(Of(String), RowOf(Col("a", Of(Int))))),
		Col("r", RowOf(Col("x", ArrayOf(Of(String))), Col("y", RowOf(Col("z", Of(Null)))))),
	}, PrimaryKey: &PrimaryKey{Columns: []string{"row.num"}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseMistakes(t *testing.T) {
	null := &option.Node{Kind: option.Null, Pos: fault.Position{Line: 7}}
	for _, c := range []struct {
		name string
		n    *option.Node
		want string
	}{
		{"missing", nil, "p: schema: the schema is missing; write schema { fields { name = type } }"},
		{"not an object", list(), "p: schema: found a list where a schema belongs; write schema { fields { name = type } }"},
		{"neither", obj("table", "x"), "t.conf:1: p: schema: neither fields nor columns is set; write fields { name = type }"},
		{"both", obj("fields", obj("a", "int"), "columns", list()), "p: schema: both fields and columns are set; keep one of them"},
		{"no fields", obj("fields", obj()), "t.conf:1: p: schema.fields: there are no fields; write fields { name = type }"},
		{"fields a list", obj("fields", list()), "p: schema.fields: found a list where the fields belong; write fields { name = type }"},
		{"no columns", obj("columns", list()), "p: schema.columns: there are no columns; write columns = [ { name = …, type = … } ]"},
		{"every mistake at once", obj("fields", obj("a", "itn", "b", obj("c", "srting"), "d", null, "a", "int"), "tabel", "x"), strings.Join([]string{
			`line 7: p: schema.fields.d: the type is missing; write a type; the type null stands in quotes: "null"`,
			`t.conf:2: p: schema.fields.a: "itn" is not a type; did you mean int?`,
			`t.conf:2: p: schema.fields.b.c: "srting" is not a type; did you mean string?`,
			`t.conf:3: p: schema: unknown option "tabel"; did you mean "table"?`,
			`t.conf:5: p: schema.fields.a: the field stands twice; remove one of them`}, "\n")},
		{"empty name", obj("fields", obj("", "int")), "t.conf:2: p: schema.fields: a field has an empty name; give it a name"},
		{"columns", obj("columns", list(obj("name", "a"), obj("name", "b", "type", "int"), obj("name", "b", "type", "int"), obj("name", "", "type", "int"),
			obj("name", "c", "type", "time", "columnScale", "12"), obj("name", "d", "typ", "int"))), strings.Join([]string{
			`t.conf:1: p: schema.columns[0]: option "type" is missing; set type = "…"`,
			`t.conf:1: p: schema.columns[5]: option "type" is missing; set type = "…"`,
			`t.conf:1: p: schema.columns[2].name: column "b" stands twice; remove one of them`,
			`t.conf:1: p: schema.columns[3].name: the name is empty; give the column a name`,
			`t.conf:3: p: schema.columns[5]: unknown option "typ"; did you mean "type"?`,
			`t.conf:4: p: schema.columns[4].columnScale: 12 digits after the second are too many; it may be 0 to 9`}, "\n")},
		{"no key columns", obj("fields", obj("a", "int"), "primaryKey", obj("name", "pk")), `t.conf:1: p: schema.primaryKey: the primary key has no columns; write columnNames = ["id"]`},
		{"key columns", obj("fields", obj("id", "int"), "primaryKey", obj("columnNames", list("di", "id", "id"))), strings.Join([]string{
			`t.conf:1: p: schema.primaryKey.columnNames: the table has no column "di"; did you mean "id"?`,
			`t.conf:1: p: schema.primaryKey.columnNames: column "id" stands twice; remove one of them`}, "\n")},
		{"constraint", obj("fields", obj("id", "int"), "constraintKeys", list(obj("constraintType", "UNIQUE", "constraintColumns", list(obj("columnName", "idd"))))), strings.Join([]string{
			`t.conf:2: p: schema.constraintKeys[0].constraintType: "UNIQUE" is not one of INDEX_KEY, UNIQUE_KEY, FOREIGN_KEY, VECTOR_INDEX_KEY; did you mean UNIQUE_KEY?`}, "\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l fault.List
			Parse(c.n, "p: schema", &l)
			if l.Err() == nil {
				t.Fatal("no error")
			}
			if d := cmp.Diff(c.want, l.Err().Error()); d != "" {
				t.Error(d)
			}
		})
	}
}

func FuzzParseType(f *testing.F) {
	for _, s := range []string{"int", "decimal(10, 2)", "map<string, {a=int}>", `{"a":"array<int>"}`, "row<a int>", "timestamp(3)", "{a{b=int}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		typ, err := ParseType(s)
		if err != nil {
			return
		}
		again, err := ParseType(typ.String())
		if err != nil || !again.Equal(typ) {
			t.Fatalf("%q is %s, which reads as %s, %v", s, typ, again, err)
		}
	})
}

func TestTypeJSON(t *testing.T) {
	for k := Null; int(k) < len(kindWords); k++ {
		b, err := k.MarshalText()
		var back Kind
		if err != nil || back.UnmarshalText(b) != nil || back != k {
			t.Errorf("%s: %s %v %s", k, b, err, back)
		}
	}
	if _, err := Kind(200).MarshalText(); err == nil {
		t.Error("an unknown kind has a text")
	}
	if err := new(Kind).UnmarshalText([]byte("INT")); err == nil {
		t.Error("a text that is no kind is read")
	}
}

func TestTypeCheck(t *testing.T) {
	deep := Of(Int)
	for range 40 {
		deep = ArrayOf(deep)
	}
	i := Of(Int)
	for _, bad := range []Type{{Kind: 200}, {Kind: Array}, {Kind: Map, Key: &i}, {Kind: Int, Elem: &i}, {Kind: Row}, {Kind: Int, Fields: []Column{Col("a", i)}},
		{Kind: Decimal}, {Kind: Time, Scale: 10}, deep, ArrayOf(Type{Kind: Array}), RowOf(Col("a", Type{Kind: Decimal})), MapOf(Type{Kind: 99}, i)} {
		if err := bad.Check(); err == nil {
			t.Errorf("%+v passes", bad)
		}
	}
	for _, good := range []Type{i, Of(Timestamp), DecimalOf(10, 2), ArrayOf(MapOf(Of(String), RowOf(Col("a", i)))), Of(SparseFloatVector)} {
		if err := good.Check(); err != nil {
			t.Error(err)
		}
	}
}

func TestTable(t *testing.T) {
	for text, want := range map[string]Path{"t": {Table: "t"}, "d.t": {Database: "d", Table: "t"}, "d.s.t": {"d", "s", "t"}, "d.s.t.u": {"d", "s", "t.u"}} {
		if got := ParsePath(text); got != want || got.String() != text {
			t.Errorf("%s: %+v %s", text, got, got)
		}
	}
	a := &Table{Columns: []Column{Col("x", Of(Int)), Col("y", Of(String))}, PrimaryKey: &PrimaryKey{Columns: []string{"x"}}}
	b := a.Clone()
	if !a.SameRow(b) || a.Index("y") != 1 || a.Index("z") != -1 || len(a.Names()) != 2 {
		t.Error("a clone is alike")
	}
	b.Columns[0].Type = Of(BigInt)
	b.PrimaryKey.Columns[0] = "y"
	if a.SameRow(b) || a.Columns[0].Type.Kind != Int || a.PrimaryKey.Columns[0] != "x" || a.SameRow(&Table{}) {
		t.Error("a clone is independent")
	}
}

func TestRowKinds(t *testing.T) {
	for k := Insert; k <= Delete; k++ {
		for _, text := range []string{k.String(), k.Long(), strings.ToLower(k.Long())} {
			if got, err := ParseRowKind(text); err != nil || got != k {
				t.Errorf("%s: %s %v", text, got, err)
			}
		}
	}
	if _, err := ParseRowKind("UPSERT"); err == nil {
		t.Error("UPSERT is no row kind")
	}
}
