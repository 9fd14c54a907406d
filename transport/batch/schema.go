package batch

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"strait/plan/schema"
)

// Schema is one table of one edge with its layout in memory. It is built once and shared by all batches.
type Schema struct {
	Table *schema.Table
	Index int // position among the tables of the edge; what the wire and the shuffle name a table by
	Arrow *arrow.Schema
}

// NewSchema lays a table out. index is its position among the tables of its edge.
func NewSchema(t *schema.Table, index int) *Schema {
	fields := make([]arrow.Field, len(t.Columns))
	for i, c := range t.Columns {
		fields[i] = arrow.Field{Name: c.Name, Type: DataType(c.Type), Nullable: true}
	}
	return &Schema{Table: t, Index: index, Arrow: arrow.NewSchema(fields, nil)}
}

// Schemas lays out the tables of one edge in order.
func Schemas(tables []*schema.Table) []*Schema {
	out := make([]*Schema, len(tables))
	for i, t := range tables {
		out[i] = NewSchema(t, i)
	}
	return out
}

// Unit is the resolution in which a date-time of that many fractional digits is kept.
func Unit(scale int) arrow.TimeUnit {
	if scale > 6 {
		return arrow.Nanosecond
	}
	return arrow.Microsecond
}

// DataType is the layout of a type; the package comment has the table.
func DataType(t schema.Type) arrow.DataType {
	switch t.Kind {
	case schema.Null:
		return arrow.Null
	case schema.Boolean:
		return arrow.FixedWidthTypes.Boolean
	case schema.TinyInt:
		return arrow.PrimitiveTypes.Int8
	case schema.SmallInt:
		return arrow.PrimitiveTypes.Int16
	case schema.Int:
		return arrow.PrimitiveTypes.Int32
	case schema.BigInt:
		return arrow.PrimitiveTypes.Int64
	case schema.Float:
		return arrow.PrimitiveTypes.Float32
	case schema.Double:
		return arrow.PrimitiveTypes.Float64
	case schema.Decimal:
		if t.Precision > 38 {
			return &arrow.Decimal256Type{Precision: int32(t.Precision), Scale: int32(t.Scale)}
		}
		return &arrow.Decimal128Type{Precision: int32(t.Precision), Scale: int32(t.Scale)}
	case schema.String:
		return arrow.BinaryTypes.String
	case schema.Bytes, schema.BinaryVector, schema.Float16Vector, schema.BFloat16Vector:
		return arrow.BinaryTypes.Binary
	case schema.Date:
		return arrow.FixedWidthTypes.Date32
	case schema.Time:
		if Unit(t.Scale) == arrow.Nanosecond {
			return arrow.FixedWidthTypes.Time64ns
		}
		return arrow.FixedWidthTypes.Time64us
	case schema.Timestamp:
		return &arrow.TimestampType{Unit: Unit(t.Scale)}
	case schema.TimestampTZ:
		return &arrow.TimestampType{Unit: Unit(t.Scale), TimeZone: "UTC"}
	case schema.Array:
		return arrow.ListOf(DataType(*t.Elem))
	case schema.Map:
		return arrow.MapOf(DataType(*t.Key), DataType(*t.Elem))
	case schema.Row:
		fields := make([]arrow.Field, len(t.Fields))
		for i, f := range t.Fields {
			fields[i] = arrow.Field{Name: f.Name, Type: DataType(f.Type), Nullable: true}
		}
		return arrow.StructOf(fields...)
	case schema.FloatVector:
		return arrow.ListOf(arrow.PrimitiveTypes.Float32)
	case schema.SparseFloatVector:
		return arrow.MapOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float32)
	}
	panic(fmt.Sprintf("BUG: type %s has no layout", t))
}
