package assert

import (
	"fmt"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/value"
)

// broken is the first value of a batch that breaks a rule.
type broken struct {
	row    int
	column *columnRule
	rule   string
}

// check looks at the columns of a batch one after the other and returns the earliest row that breaks a rule, or
// nil.
func (s *ruleSet) check(b *batch.Batch) *broken {
	var first *broken
	found := func(row int, c *columnRule, rule string) {
		if row >= 0 && (first == nil || row < first.row) {
			first = &broken{row, c, rule}
		}
	}
	for i := range s.columns {
		c := &s.columns[i]
		a, t := b.Cols[c.index], b.Schema.Table.Columns[c.index].Type
		if c.declared != nil && !c.sure {
			found(firstUnfit(a, t, *c.declared), c, fmt.Sprintf("field_type %s, the column is of type %s", c.declared, t))
		}
		for r := range c.rules {
			found(c.rules[r].firstBroken(a, t), c, c.rules[r].text)
		}
	}
	return first
}

func firstUnfit(a arrow.Array, t, declared schema.Type) int {
	for i := range a.Len() {
		if !fits(a, i, t, declared) {
			return i
		}
	}
	return -1
}

// firstBroken is the first row that breaks the rule, or -1.
func (r *valueRule) firstBroken(a arrow.Array, t schema.Type) int {
	switch r.kind {
	case ruleNull:
		return firstWhere(a, func(i int) bool { return !value.IsNull(a, i) })
	case ruleNotNull:
		if a.NullN() == 0 {
			return -1
		}
		return firstWhere(a, func(i int) bool { return value.IsNull(a, i) })
	case ruleMin:
		num := numbers(a, t)
		return firstWhere(a, func(i int) bool { return value.IsNull(a, i) || !(num(i) >= r.bound) })
	case ruleMax:
		num := numbers(a, t)
		return firstWhere(a, func(i int) bool { return value.IsNull(a, i) || !(num(i) <= r.bound) })
	case ruleMinLength:
		length := lengths(a, t)
		return firstWhere(a, func(i int) bool { return float64(length(i)) < r.bound })
	case ruleMaxLength:
		length := lengths(a, t)
		return firstWhere(a, func(i int) bool { return float64(length(i)) > r.bound })
	}
	return firstWhere(a, func(i int) bool { return !value.Equal(a, i, r.want, 0) })
}

func firstWhere(a arrow.Array, bad func(i int) bool) int {
	for i := range a.Len() {
		if bad(i) {
			return i
		}
	}
	return -1
}

// numbers gives the values of a column of numbers.
func numbers(a arrow.Array, t schema.Type) func(i int) float64 {
	switch a := a.(type) {
	case *array.Int8:
		return func(i int) float64 { return float64(a.Value(i)) }
	case *array.Int16:
		return func(i int) float64 { return float64(a.Value(i)) }
	case *array.Int32:
		return func(i int) float64 { return float64(a.Value(i)) }
	case *array.Int64:
		return func(i int) float64 { return float64(a.Value(i)) }
	case *array.Float32:
		return func(i int) float64 { return float64(a.Value(i)) }
	case *array.Float64:
		return func(i int) float64 { return a.Value(i) }
	case *array.Decimal128:
		return func(i int) float64 { return a.Value(i).ToFloat64(int32(t.Scale)) }
	case *array.Decimal256:
		return func(i int) float64 { return a.Value(i).ToFloat64(int32(t.Scale)) }
	}
	return func(int) float64 { return 0 } // a column of nulls
}

// lengths gives the number of UTF-16 units in the text of a value, as Java counts; null has none.
func lengths(a arrow.Array, t schema.Type) func(i int) int {
	var buf []byte
	return func(i int) int {
		if value.IsNull(a, i) {
			return 0
		}
		buf = value.AppendText(buf[:0], t, a, i)
		n := 0
		for rest := buf; len(rest) > 0; {
			r, size := utf8.DecodeRune(rest)
			rest = rest[size:]
			n++
			if r > 0xffff {
				n++
			}
		}
		return n
	}
}
