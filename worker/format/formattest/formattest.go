package formattest

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"strait/plan/schema"
	"strait/transport/batch"
)

// Table builds a table from names and type words: name, type, name, type …
func Table(words ...string) *schema.Table {
	t := &schema.Table{Path: schema.Path{Database: "shop", Table: "orders"}}
	for i := 0; i < len(words); i += 2 {
		ty, err := schema.ParseType(words[i+1])
		if err != nil {
			panic(fmt.Sprintf("type %q: %v", words[i+1], err))
		}
		t.Columns = append(t.Columns, schema.Col(words[i], ty))
	}
	return t
}

// Flat has a column of every type without parts.
func Flat() *schema.Table {
	t := Table("c_string", "string", "c_boolean", "boolean", "c_tinyint", "tinyint", "c_smallint", "smallint", "c_int", "int",
		"c_bigint", "bigint", "c_float", "float", "c_double", "double", "c_decimal", "decimal(38, 18)", "c_money", "decimal(10, 2)",
		"c_bytes", "bytes", "c_date", "date", "c_time", "time", "c_timestamp", "timestamp")
	tz := schema.Of(schema.TimestampTZ)
	t.Columns = append(t.Columns, schema.Col("c_instant", tz))
	return t
}

// All has a column of every type that files hold, nested ones too.
func All() *schema.Table {
	t := Flat()
	row := schema.RowOf(append([]schema.Column(nil), t.Columns...)...)
	t.Columns = append(t.Columns, Table("c_array", "array<int>", "c_texts", "array<string>", "c_map", "map<string, string>",
		"c_counts", "map<int, bigint>", "c_deep", "map<string, array<int>>").Columns...)
	t.Columns = append(t.Columns, schema.Col("c_row", row))
	return t
}

// Rand fills rows with values in the range of every type, one in seven null. Texts are made of letters from
// alphabet; empty: printable ASCII without separators.
func Rand(s *batch.Schema, n int, seed uint64, alphabet string) *batch.Batch {
	g := gen{rand.New(rand.NewPCG(seed, 1)), []rune(alphabet)}
	if len(g.alphabet) == 0 {
		g.alphabet = []rune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
	}
	b := batch.NewBuilder(s)
	for range n {
		for c := range s.Table.Columns {
			g.value(b.Field(c), &s.Table.Columns[c].Type)
		}
		b.EndRow(schema.Insert)
	}
	return b.Finish()
}

type gen struct {
	*rand.Rand
	alphabet []rune
}

func (g *gen) text() string {
	r := make([]rune, 1+g.IntN(12))
	for i := range r {
		r[i] = g.alphabet[g.IntN(len(g.alphabet))]
	}
	return string(r)
}

// whole is a whole number of any size up to limit, small ones as often as big ones.
func (g *gen) whole(limit int64) int64 {
	switch g.IntN(8) {
	case 0:
		return limit
	case 1:
		return -limit - 1
	case 2:
		return 0
	}
	v := g.Int64() >> g.IntN(63)
	v %= limit
	if g.IntN(2) == 0 {
		return -v
	}
	return v
}

func (g *gen) digits(n int) *big.Int {
	v := new(big.Int)
	for range 1 + g.IntN(n) {
		v.Mul(v, big.NewInt(10))
		v.Add(v, big.NewInt(int64(g.IntN(10))))
	}
	if g.IntN(2) == 0 {
		v.Neg(v)
	}
	return v
}

func (g *gen) value(b array.Builder, t *schema.Type) {
	if g.IntN(7) == 0 || t.Kind == schema.Null {
		b.AppendNull()
		return
	}
	const day = 86400
	switch d := b.(type) {
	case *array.StringBuilder:
		d.Append(g.text())
	case *array.BinaryBuilder:
		d.Append([]byte(g.text()))
	case *array.BooleanBuilder:
		d.Append(g.IntN(2) == 0)
	case *array.Int8Builder:
		d.Append(int8(g.whole(math.MaxInt8)))
	case *array.Int16Builder:
		d.Append(int16(g.whole(math.MaxInt16)))
	case *array.Int32Builder:
		d.Append(int32(g.whole(math.MaxInt32)))
	case *array.Int64Builder:
		d.Append(g.whole(math.MaxInt64))
	case *array.Float32Builder:
		d.Append(float32(g.NormFloat64() * math.Pow(10, float64(g.IntN(60)-30))))
	case *array.Float64Builder:
		d.Append(g.NormFloat64() * math.Pow(10, float64(g.IntN(400)-200)))
	case *array.Decimal128Builder:
		d.Append(decimal128.FromBigInt(g.digits(t.Precision)))
	case *array.Decimal256Builder:
		d.Append(decimal256.FromBigInt(g.digits(t.Precision)))
	case *array.Date32Builder:
		d.Append(arrow.Date32(g.IntN(80000) - 40000))
	case *array.Time64Builder:
		d.Append(arrow.Time64(int64(g.IntN(day)) * 1e6))
	case *array.TimestampBuilder:
		d.Append(arrow.Timestamp(int64(g.IntN(80000*day)-40000*day) * 1e6))
	case *array.MapBuilder:
		d.Append(true)
		seen := map[string]bool{}
		for range 1 + g.IntN(3) {
			k := g.text()
			if seen[k] {
				continue
			}
			seen[k] = true
			switch kb := d.KeyBuilder().(type) {
			case *array.StringBuilder:
				kb.Append(k)
			case *array.Int32Builder:
				kb.Append(int32(len(seen)) * 1000)
			}
			g.value(d.ItemBuilder(), t.Elem)
		}
	case *array.ListBuilder:
		d.Append(true)
		for range 2 + g.IntN(3) {
			g.value(d.ValueBuilder(), t.Elem)
		}
	case *array.StructBuilder:
		d.Append(true)
		for f := range t.Fields {
			g.value(d.FieldBuilder(f), &t.Fields[f].Type)
		}
	default:
		panic(fmt.Sprintf("no values for %s", t))
	}
}

// Diff says where two batches differ, or nothing.
func Diff(got, want *batch.Batch) string {
	switch {
	case got == nil && want == nil:
		return ""
	case got == nil || want == nil:
		return fmt.Sprintf("one batch is missing: got %v, want %v", got != nil, want != nil)
	case got.Rows != want.Rows:
		return fmt.Sprintf("%d rows, want %d", got.Rows, want.Rows)
	}
	for c := range want.Cols {
		if !arrow.TypeEqual(got.Cols[c].DataType(), want.Cols[c].DataType()) {
			return fmt.Sprintf("column %d is %s, want %s", c, got.Cols[c].DataType(), want.Cols[c].DataType())
		}
		for i := range want.Rows {
			if !array.Equal(array.NewSlice(got.Cols[c], int64(i), int64(i+1)), array.NewSlice(want.Cols[c], int64(i), int64(i+1))) {
				return fmt.Sprintf("row %d, column %s: %s, want %s", i, want.Schema.Table.Columns[c].Name, got.Cols[c].ValueStr(i), want.Cols[c].ValueStr(i))
			}
		}
	}
	return ""
}

// Concat joins batches of one table.
func Concat(batches []*batch.Batch) *batch.Batch {
	if len(batches) == 0 {
		return nil
	}
	b := batch.NewBuilder(batches[0].Schema)
	for _, x := range batches {
		for c := range x.Cols {
			batch.AppendRange(b.Field(c), x.Cols[c], 0, x.Rows)
		}
		b.EndRows(x.Rows)
	}
	return b.Finish()
}
