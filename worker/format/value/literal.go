package value

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/decimal256"

	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
	"strait/worker/format/field"
)

// Reader reads literals of a job file.
type Reader struct {
	// Exact refuses decimals and date-times with more digits than their type keeps; otherwise decimals are
	// rounded half up and date-times cut.
	Exact bool
	// Now is the time that CURRENT_DATE, CURRENT_TIME and CURRENT_TIMESTAMP stand for.
	Now time.Time
}

// Error is a literal that does not fit its type. Path leads to it from the value Append was given: empty, or
// such as .c_row[2].
type Error struct {
	Pos   fault.Position
	Path  string
	Found string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return e.Found
	}
	return e.Path + ": " + e.Found
}

// Append reads n as a value of type t and appends it to b, whose layout is that of batch.DataType(t). After an
// error b may hold a part of the value. The error is an *Error.
func (r Reader) Append(b array.Builder, t schema.Type, n *option.Node) error {
	if err := r.append(b, t, n, ""); err != nil {
		return err // not a typed nil
	}
	return nil
}

func bad(n *option.Node, path string, t schema.Type) *Error {
	return &Error{Pos: n.Pos, Path: path, Found: fmt.Sprintf("%s is not a value of type %s", n.Describe(), t)}
}

func (r Reader) append(b array.Builder, t schema.Type, n *option.Node, path string) error {
	if n == nil || n.Kind == option.Null {
		b.AppendNull()
		return nil
	}
	switch t.Kind {
	case schema.Null:
		return &Error{Pos: n.Pos, Path: path, Found: n.Describe() + " stands where the type allows only null"}
	case schema.Row:
		return r.row(b.(*array.StructBuilder), t, n, path)
	case schema.Array, schema.FloatVector:
		return r.list(b.(*array.ListBuilder), t, n, path)
	case schema.Map, schema.SparseFloatVector:
		return r.entries(b.(*array.MapBuilder), t, n, path)
	}
	if n.Kind == option.List && (t.Kind == schema.BinaryVector || t.Kind == schema.Float16Vector || t.Kind == schema.BFloat16Vector) {
		return r.vector(b.(*array.BinaryBuilder), t, n, path)
	}
	if n.Kind == option.List || n.Kind == option.Object {
		if t.Kind == schema.String {
			b.(*array.StringBuilder).Append(string(appendJSON(nil, n)))
			return nil
		}
		return bad(n, path, t)
	}
	ok, err := r.scalar(b, t, n)
	if err != nil {
		return &Error{Pos: n.Pos, Path: path, Found: err.Error()}
	}
	if !ok {
		return bad(n, path, t)
	}
	return nil
}

// scalar appends a single value; false: the text is no value of the type.
func (r Reader) scalar(b array.Builder, t schema.Type, n *option.Node) (bool, error) {
	text := n.Text
	if t.Kind != schema.String {
		text = strings.TrimSpace(text)
	}
	switch t.Kind {
	case schema.String:
		if n.Kind == option.Number {
			text = numberText(text)
		}
		b.(*array.StringBuilder).Append(text)
	case schema.Boolean:
		v, err := field.Bool([]byte(text))
		if err != nil {
			return false, nil
		}
		b.(*array.BooleanBuilder).Append(v)
	case schema.TinyInt, schema.SmallInt, schema.Int, schema.BigInt:
		return appendInt(b, t, text)
	case schema.Float:
		f, err := strconv.ParseFloat(text, 32)
		if err != nil && !math.IsInf(f, 0) {
			return false, nil
		}
		b.(*array.Float32Builder).Append(float32(f))
	case schema.Double:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil && !math.IsInf(f, 0) {
			return false, nil
		}
		b.(*array.Float64Builder).Append(f)
	case schema.Decimal:
		return r.appendDecimal(b, t, text)
	case schema.Bytes, schema.BinaryVector, schema.Float16Vector, schema.BFloat16Vector:
		v, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			if v, err = base64.RawStdEncoding.DecodeString(text); err != nil {
				return false, fmt.Errorf("%s is not base64, the form of a value of type %s", n.Describe(), t)
			}
		}
		b.(*array.BinaryBuilder).Append(v)
	default:
		return r.appendTime(b, t, text)
	}
	return true, nil
}

// numberText is how SeaTunnel's parser hands on an unquoted number to a string column: 47.0 becomes 47.
func numberText(text string) string {
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return text
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.FormatInt(int64(f), 10)
	}
	return string(field.AppendFloat(nil, f, 64))
}

func appendInt(b array.Builder, t schema.Type, text string) (bool, error) {
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(text, 64)
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
			return false, nil
		}
		i = int64(f)
	}
	lo, hi := int64(math.MinInt64), int64(math.MaxInt64)
	switch t.Kind {
	case schema.TinyInt:
		lo, hi = math.MinInt8, math.MaxInt8
	case schema.SmallInt:
		lo, hi = math.MinInt16, math.MaxInt16
	case schema.Int:
		lo, hi = math.MinInt32, math.MaxInt32
	}
	if i < lo || i > hi {
		return false, fmt.Errorf("%s does not fit into %s", text, t)
	}
	switch b := b.(type) {
	case *array.Int8Builder:
		b.Append(int8(i))
	case *array.Int16Builder:
		b.Append(int16(i))
	case *array.Int32Builder:
		b.Append(int32(i))
	case *array.Int64Builder:
		b.Append(i)
	}
	return true, nil
}

func (r Reader) appendDecimal(b array.Builder, t schema.Type, text string) (bool, error) {
	if len(text) > 512 {
		return false, nil
	}
	if e := strings.IndexAny(text, "eE"); e >= 0 {
		if x, err := strconv.Atoi(text[e+1:]); err != nil || x > 999 || x < -999 {
			return false, nil
		}
	}
	unscaled, rounded, err := field.Unscaled([]byte(text), t.Precision, t.Scale)
	switch {
	case err != nil && !errors.Is(err, field.ErrDigits):
		return false, nil
	case rounded && r.Exact:
		return false, fmt.Errorf("%s has more digits behind the point than %s keeps", text, t)
	case err != nil:
		return false, fmt.Errorf("%s does not fit into %s", text, t)
	}
	switch b := b.(type) {
	case *array.Decimal128Builder:
		b.Append(decimal128.FromBigInt(unscaled))
	case *array.Decimal256Builder:
		b.Append(decimal256.FromBigInt(unscaled))
	}
	return true, nil
}

func (r Reader) appendTime(b array.Builder, t schema.Type, text string) (bool, error) {
	at, ok := r.current(t, text)
	if !ok {
		var c field.Clock
		switch t.Kind {
		case schema.Date:
			c, ok = parseDate(text)
		case schema.Time:
			c, ok = parseTime(text)
		case schema.Timestamp:
			c, ok = parseTimestamp(text)
		case schema.TimestampTZ:
			c, ok = parseInstant(text)
		}
		if !ok {
			return false, nil
		}
		at = timeOf(&c)
		if step := int(math.Pow10(9 - min(t.Scale, 9))); r.Exact && t.Kind != schema.Date && at.Nanosecond()%step != 0 {
			return false, fmt.Errorf("%q has more digits behind the second than %s keeps", text, t)
		}
	}
	at = at.Truncate(time.Duration(math.Pow10(9 - min(t.Scale, 9))))
	switch b := b.(type) {
	case *array.Date32Builder:
		b.Append(arrow.Date32FromTime(at))
	case *array.Time64Builder:
		n := arrow.Time64(at.Hour()*3600+at.Minute()*60+at.Second())*1e9 + arrow.Time64(at.Nanosecond())
		if b.Type().(*arrow.Time64Type).Unit == arrow.Microsecond {
			n /= 1e3
		}
		b.Append(n)
	case *array.TimestampBuilder:
		v, err := arrow.TimestampFromTime(at, b.Type().(*arrow.TimestampType).Unit)
		if err != nil {
			return false, fmt.Errorf("%q is outside of what %s can hold", text, t)
		}
		b.Append(v)
	}
	return true, nil
}

func (r Reader) current(t schema.Type, text string) (time.Time, bool) {
	words := map[schema.Kind]string{schema.Date: "CURRENT_DATE", schema.Time: "CURRENT_TIME", schema.Timestamp: "CURRENT_TIMESTAMP", schema.TimestampTZ: "CURRENT_TIMESTAMP"}
	if w, ok := words[t.Kind]; !ok || !strings.EqualFold(w, text) {
		return time.Time{}, false
	}
	if t.Kind == schema.TimestampTZ {
		return r.Now.UTC(), true
	}
	y, m, d := r.Now.Date() // the wall clock, kept without its zone
	return time.Date(y, m, d, r.Now.Hour(), r.Now.Minute(), r.Now.Second(), r.Now.Nanosecond(), time.UTC), true
}
