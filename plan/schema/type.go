package schema

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is the outermost word of a type.
type Kind uint8

// The kinds, in the order of SeaTunnel's documentation.
const (
	Null Kind = iota
	Boolean
	TinyInt
	SmallInt
	Int
	BigInt
	Float
	Double
	Decimal // Precision and Scale
	String
	Bytes
	Date
	Time        // Scale: digits after the second, 0 to 9
	Timestamp   // no zone; Scale as for Time
	TimestampTZ // an instant; Scale as for Time
	Array       // Elem
	Map         // Key and Elem
	Row         // Fields
	BinaryVector
	FloatVector
	Float16Vector
	BFloat16Vector
	SparseFloatVector
)

var kindWords = [...]string{"null", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal",
	"string", "bytes", "date", "time", "timestamp", "timestamp_tz", "array", "map", "row", "binary_vector",
	"float_vector", "float16_vector", "bfloat16_vector", "sparse_float_vector"}

// String is the type word in lower case.
func (k Kind) String() string {
	if int(k) < len(kindWords) {
		return kindWords[k]
	}
	return fmt.Sprintf("kind%d", k)
}

// MarshalText writes the type word: stored plans do not depend on the order of the kinds.
func (k Kind) MarshalText() ([]byte, error) {
	if int(k) >= len(kindWords) {
		return nil, fmt.Errorf("BUG: there is no type of kind %d", k)
	}
	return []byte(kindWords[k]), nil
}

// UnmarshalText is the inverse of MarshalText.
func (k *Kind) UnmarshalText(b []byte) error {
	for i, w := range kindWords {
		if w == string(b) {
			*k = Kind(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a type", b)
}

// DefaultScale is the number of digits after the second that date-times carry unless the schema says otherwise.
const DefaultScale = 6

// Type is the type of a column or of a part of one. It is immutable once built.
type Type struct {
	Kind      Kind     `json:"kind"`
	Precision int      `json:"precision,omitempty"`
	Scale     int      `json:"scale,omitempty"`
	Key       *Type    `json:"key,omitempty"`
	Elem      *Type    `json:"elem,omitempty"`
	Fields    []Column `json:"fields,omitempty"`
}

// Of returns the type of a kind that has no parameters; date-times get DefaultScale.
func Of(k Kind) Type {
	if k == Time || k == Timestamp || k == TimestampTZ {
		return Type{Kind: k, Scale: DefaultScale}
	}
	return Type{Kind: k}
}

// DecimalOf returns decimal(p, s).
func DecimalOf(p, s int) Type { return Type{Kind: Decimal, Precision: p, Scale: s} }

// ArrayOf returns array<e>.
func ArrayOf(e Type) Type { return Type{Kind: Array, Elem: &e} }

// MapOf returns map<k, v>.
func MapOf(k, v Type) Type { return Type{Kind: Map, Key: &k, Elem: &v} }

// RowOf returns a nested row.
func RowOf(fields ...Column) Type { return Type{Kind: Row, Fields: fields} }

// String writes the type as a schema block does: decimal(10, 2), map<string, array<int>>.
func (t Type) String() string {
	switch t.Kind {
	case Decimal:
		return fmt.Sprintf("decimal(%d, %d)", t.Precision, t.Scale)
	case Array:
		return "array<" + t.Elem.String() + ">"
	case Map:
		return "map<" + t.Key.String() + ", " + t.Elem.String() + ">"
	case Row:
		parts := make([]string, len(t.Fields))
		for i, f := range t.Fields {
			parts[i] = quoteName(f.Name) + " " + f.Type.String()
		}
		return "row<" + strings.Join(parts, ", ") + ">"
	case Time, Timestamp, TimestampTZ:
		if t.Scale != DefaultScale {
			return fmt.Sprintf("%s(%d)", t.Kind, t.Scale)
		}
	}
	return t.Kind.String()
}

// quoteName quotes a field name that ParseType would not read as one word.
func quoteName(s string) string {
	if s == "" || strings.ContainsAny(s, " \t\r\n<>(){},=:\"\\") {
		return strconv.Quote(s)
	}
	return s
}

// Check reports a type that no constructor makes, such as one read from damaged bytes: an array without an
// element type, an unknown kind.
func (t Type) Check() error { return t.check(0) }

func (t Type) check(depth int) error {
	bad := func(what string) error { return fmt.Errorf("type %s %s", t.Kind, what) }
	switch {
	case depth > maxDepth:
		return bad("nests too deep")
	case int(t.Kind) >= len(kindWords):
		return bad("is unknown")
	case (t.Key != nil) != (t.Kind == Map) || (t.Elem != nil) != (t.Kind == Map || t.Kind == Array):
		return bad("has the wrong parts")
	case t.Kind == Row && len(t.Fields) == 0 || t.Kind != Row && len(t.Fields) > 0:
		return bad("has the wrong fields")
	case (t.Kind == Time || t.Kind == Timestamp || t.Kind == TimestampTZ) && (t.Scale < 0 || t.Scale > 9):
		return bad("has a scale out of range")
	case t.Kind == Decimal && (t.Precision < 1 || t.Precision > maxPrecision || t.Scale < 0 || t.Scale > t.Precision):
		return bad("has precision or scale out of range")
	}
	for _, part := range []*Type{t.Key, t.Elem} {
		if part == nil {
			continue
		}
		if err := part.check(depth + 1); err != nil {
			return err
		}
	}
	for i := range t.Fields {
		if err := t.Fields[i].Type.check(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

// Equal reports whether two types hold the same values in the same form. Nested names count, comments do not.
func (t Type) Equal(o Type) bool {
	if t.Kind != o.Kind || t.Precision != o.Precision || t.Scale != o.Scale || len(t.Fields) != len(o.Fields) {
		return false
	}
	if t.Key != nil && !t.Key.Equal(*o.Key) || t.Elem != nil && !t.Elem.Equal(*o.Elem) {
		return false
	}
	for i := range t.Fields {
		if t.Fields[i].Name != o.Fields[i].Name || !t.Fields[i].Type.Equal(o.Fields[i].Type) {
			return false
		}
	}
	return true
}

// RowKind says what a row does. The values are SeaTunnel's.
type RowKind uint8

// The row kinds.
const (
	Insert RowKind = iota
	UpdateBefore
	UpdateAfter
	Delete
)

// String is the short form: +I, -U, +U, -D.
func (k RowKind) String() string {
	if int(k) < len(shortKinds) {
		return shortKinds[k]
	}
	return fmt.Sprintf("?%d", k)
}

var (
	shortKinds = [...]string{"+I", "-U", "+U", "-D"}
	longKinds  = [...]string{"INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE"}
)

// Long is the full form: INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE.
func (k RowKind) Long() string { return longKinds[k] }

// ParseRowKind reads either form without regard to case.
func ParseRowKind(s string) (RowKind, error) {
	for i := range shortKinds {
		if strings.EqualFold(s, shortKinds[i]) || strings.EqualFold(s, longKinds[i]) {
			return RowKind(i), nil
		}
	}
	return 0, fmt.Errorf("%q is not a row kind; write INSERT, UPDATE_BEFORE, UPDATE_AFTER or DELETE", s)
}
