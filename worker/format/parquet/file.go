package parquet

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"strait/plan/fault"
	"strait/plan/schema"
)

// File is an open file, its footer read. The caller closes the bytes below.
type File struct {
	r      *file.Reader
	fr     *pqarrow.FileReader
	arrow  *arrow.Schema
	wall   bool // timestamps marked UTC are wall clocks
	groups []Group
}

// Group is one row group.
type Group struct {
	Offset int64 // of its first byte in the file
	Rows   int64
	Bytes  int64 // uncompressed
}

// pageBuffer is read ahead for each column.
const pageBuffer = 64 << 10

// guard turns a panic of the library, which damaged files cause, into an error.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fault.Fatalf("the file is damaged: %v", p)
	}
}

// Open reads the footer of size bytes.
func Open(r io.ReaderAt, size int64) (f *File, err error) {
	defer guard(&err)
	if size < 12 {
		return nil, fault.Fatalf("is not a parquet file: %d bytes are too few", size)
	}
	var magic [4]byte
	if _, err := r.ReadAt(magic[:], size-4); err != nil {
		return nil, err
	}
	if tail := string(magic[:]); tail != "PAR1" {
		if _, err := r.ReadAt(magic[:], 0); err == nil && string(magic[:]) == "PAR1" {
			return nil, fault.Fatalf("the file is cut off: it begins as parquet and has no footer at its end (byte %d)", size)
		}
		return nil, fault.Fatalf("is not a parquet file: it neither begins nor ends with PAR1")
	}
	props := pq.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled = true
	props.BufferSize = pageBuffer
	pr, err := file.NewParquetReader(io.NewSectionReader(r, 0, size), file.WithReadProps(props))
	if err != nil {
		return nil, fault.Fatalf("the footer cannot be read, the file is damaged: %w", err)
	}
	fr, err := pqarrow.NewFileReader(pr, pqarrow.ArrowReadProperties{BatchSize: 8192}, memory.DefaultAllocator)
	if err != nil {
		return nil, fault.Fatalf("the columns cannot be read: %w", err)
	}
	sc, err := fr.Schema()
	if err != nil {
		return nil, fault.Fatalf("the columns cannot be read: %w", err)
	}
	f = &File{r: pr, fr: fr, arrow: sc, wall: pr.MetaData().Schema.Root().Name() == "SeaTunnelRecord"}
	for i := range pr.NumRowGroups() {
		g := pr.MetaData().RowGroup(i)
		at := int64(-1)
		for c := range g.NumColumns() {
			cc, err := g.ColumnChunk(c)
			if err != nil {
				return nil, fault.Fatalf("row group %d cannot be read: %w", i, err)
			}
			o := cc.DataPageOffset()
			if cc.HasDictionaryPage() && cc.DictionaryPageOffset() > 0 {
				o = min(o, cc.DictionaryPageOffset())
			}
			if at < 0 || o < at {
				at = o
			}
		}
		if at >= size {
			return nil, fault.Fatalf("the file is damaged: row group %d begins at byte %d of %d", i, at, size)
		}
		f.groups = append(f.groups, Group{Offset: max(at, 0), Rows: g.NumRows(), Bytes: g.TotalByteSize()})
	}
	return f, nil
}

// Groups lists the row groups.
func (f *File) Groups() []Group { return f.groups }

// Columns gives the columns of the file as a table has them.
func (f *File) Columns() ([]schema.Column, error) {
	out := make([]schema.Column, 0, len(f.arrow.Fields()))
	for _, a := range f.arrow.Fields() {
		t, err := f.typeOf(a.Type)
		if err != nil {
			return nil, fault.Fatalf("column %s: %w", a.Name, err)
		}
		c := schema.Col(a.Name, t)
		c.Nullable = a.Nullable
		out = append(out, c)
	}
	return out, nil
}

func scaled(k schema.Kind, u arrow.TimeUnit) schema.Type {
	t := schema.Of(k)
	if u == arrow.Nanosecond {
		t.Scale = 9
	}
	return t
}

// typeOf is the type that holds every value of an Arrow type.
func (f *File) typeOf(a arrow.DataType) (schema.Type, error) {
	switch t := a.(type) {
	case *arrow.NullType:
		return schema.Of(schema.Null), nil
	case *arrow.BooleanType:
		return schema.Of(schema.Boolean), nil
	case *arrow.Int8Type:
		return schema.Of(schema.TinyInt), nil
	case *arrow.Int16Type, *arrow.Uint8Type:
		return schema.Of(schema.SmallInt), nil
	case *arrow.Int32Type, *arrow.Uint16Type:
		return schema.Of(schema.Int), nil
	case *arrow.Int64Type, *arrow.Uint32Type:
		return schema.Of(schema.BigInt), nil
	case *arrow.Uint64Type:
		return schema.DecimalOf(20, 0), nil
	case *arrow.Float16Type, *arrow.Float32Type:
		return schema.Of(schema.Float), nil
	case *arrow.Float64Type:
		return schema.Of(schema.Double), nil
	case arrow.DecimalType:
		return schema.DecimalOf(int(t.GetPrecision()), int(t.GetScale())), nil
	case *arrow.StringType, *arrow.LargeStringType:
		return schema.Of(schema.String), nil
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.FixedSizeBinaryType:
		return schema.Of(schema.Bytes), nil
	case *arrow.Date32Type, *arrow.Date64Type:
		return schema.Of(schema.Date), nil
	case *arrow.Time32Type:
		return scaled(schema.Time, t.Unit), nil
	case *arrow.Time64Type:
		return scaled(schema.Time, t.Unit), nil
	case *arrow.TimestampType:
		if t.TimeZone != "" && !f.wall {
			return scaled(schema.TimestampTZ, t.Unit), nil
		}
		return scaled(schema.Timestamp, t.Unit), nil
	case *arrow.MapType:
		key, err := f.typeOf(t.KeyType())
		if err != nil {
			return schema.Type{}, err
		}
		item, err := f.typeOf(t.ItemType())
		if err != nil {
			return schema.Type{}, err
		}
		return schema.MapOf(key, item), nil
	case arrow.ListLikeType:
		elem, err := f.typeOf(t.Elem())
		if err != nil {
			return schema.Type{}, err
		}
		return schema.ArrayOf(elem), nil
	case *arrow.StructType:
		fields := make([]schema.Column, 0, t.NumFields())
		for _, sub := range t.Fields() {
			st, err := f.typeOf(sub.Type)
			if err != nil {
				return schema.Type{}, fmt.Errorf("field %s: %w", sub.Name, err)
			}
			fields = append(fields, schema.Col(sub.Name, st))
		}
		return schema.RowOf(fields...), nil
	case arrow.ExtensionType:
		return f.typeOf(t.StorageType())
	case *arrow.DictionaryType:
		return f.typeOf(t.ValueType)
	}
	return schema.Type{}, fmt.Errorf("type %s is not known here", a)
}
