package fake

import (
	"errors"
	"fmt"
	"math"
	"time"

	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/format/value"
)

// config is one table and how its values are made up.
type config struct {
	table    *schema.Table
	literal  *batch.Batch // the rows, where they are written in the job file; its schema is not the plan's
	isLit    bool
	rowNum   int64 // of a subtask
	splitNum int64
	interval time.Duration // between splits; 0: none

	mapSize, arraySize, bytesLength, stringLength int
	dimension, binaryDimension                    int
	vecMin, vecMax                                float64
	strings                                       []string
	ints                                          map[schema.Kind]intRange
	floats                                        map[schema.Kind]floatRange
	parts                                         [6][]int64 // templates of the date parts
	counted                                       map[int]bool
	start                                         int64 // of the counted columns
}

type intRange struct {
	min, max int64
	template []int64
}

type floatRange struct {
	min, max float64
	template []float64
}

// maxRow is the largest row that is made up.
const maxRow = 64 << 20

// problems collects mistakes with the place of the option they are about.
type problems struct{ fault.List }

func (p *problems) add(v option.Values, name, found, remedy string) {
	at := v.Raw()
	if n := v.Node(name); n != nil {
		at = n
	}
	p.Add(at.Pos, v.Path(name), found, remedy)
}

// newConfig reads the options of one table.
func newConfig(p *problems, v option.Values) *config {
	c := &config{
		rowNum: v.Int("row.num"), splitNum: v.Int("split.num"),
		mapSize: int(v.Int("map.size")), arraySize: int(v.Int("array.size")),
		bytesLength: int(v.Int("bytes.length")), stringLength: int(v.Int("string.length")),
		dimension: int(v.Int("vector.dimension")), binaryDimension: int(v.Int("binary.vector.dimension")),
		vecMin: v.Float("vector.float.min"), vecMax: v.Float("vector.float.max"),
		strings: v.Strings("string.template"),
		ints:    map[schema.Kind]intRange{}, floats: map[schema.Kind]floatRange{},
		counted: map[int]bool{}, start: v.Int("auto.increment.start"),
	}
	if v.Has("split.read-interval") {
		c.interval = v.Duration("split.read-interval")
	}
	c.table = schema.Parse(v.Node("schema"), v.Path("schema"), &p.List)
	c.ranges(p, v)
	for i, d := range dateParts {
		c.parts[i] = template(p, v, d.option, wholeIn("what a "+d.name+" may be", d.min, d.max))
	}
	if c.vecMin > c.vecMax {
		p.add(v, "vector.float.max", fmt.Sprintf("%v is below vector.float.min = %v", c.vecMax, c.vecMin), "")
	}
	if c.binaryDimension%8 != 0 {
		p.add(v, "binary.vector.dimension", fmt.Sprintf("%d is not a multiple of 8", c.binaryDimension), "")
	}
	for i, col := range c.table.Columns {
		if col.Type.Kind == schema.BinaryVector && col.Scale%8 != 0 {
			p.add(v, "schema", fmt.Sprintf("column %s: a columnScale of %d is not a multiple of 8", col.Name, col.Scale), "")
		}
		if col.Default != nil {
			c.checkDefault(p, v, col)
		}
		c.counted[i] = v.Bool("auto.increment.enabled") && c.isKey(col)
	}
	if w := c.rowWidth(); w > maxRow && !v.Has("rows") {
		p.add(v, "schema", fmt.Sprintf("a row would have about %.0f MiB", w/(1<<20)), "lower array.size, map.size, string.length or the dimension of vectors")
	}
	if p.Len() == 0 && v.Has("rows") {
		c.readRows(p, v)
	}
	return c
}

func (c *config) isKey(col schema.Column) bool {
	if c.table.PrimaryKey == nil || col.Type.Kind < schema.TinyInt || col.Type.Kind > schema.BigInt {
		return false
	}
	for _, k := range c.table.PrimaryKey.Columns {
		if k == col.Name {
			return true
		}
	}
	return false
}

// ranges reads NAME.min, NAME.max, NAME.template and NAME.fake.mode of every type that has them.
func (c *config) ranges(p *problems, v option.Values) {
	limits := map[string][2]int64{"tinyint": {math.MinInt8, math.MaxInt8}, "smallint": {math.MinInt16, math.MaxInt16},
		"int": {math.MinInt32, math.MaxInt32}, "bigint": {math.MinInt64, math.MaxInt64}}
	kinds := map[string]schema.Kind{"tinyint": schema.TinyInt, "smallint": schema.SmallInt, "int": schema.Int,
		"bigint": schema.BigInt, "float": schema.Float, "double": schema.Double}
	for _, t := range numberTypes {
		w := t.word
		given := len(v.Strings(w + ".template"))
		if lim, ok := limits[w]; ok {
			r := intRange{min: v.Int(w + ".min"), max: v.Int(w + ".max")}
			r.template = template(p, v, w+".template", wholeIn(w, lim[0], lim[1]))
			for _, name := range []string{w + ".min", w + ".max"} {
				if x := v.Int(name); x < lim[0] || x > lim[1] {
					p.add(v, name, fmt.Sprintf("%d is outside of %s: %d to %d", x, w, lim[0], lim[1]), "")
				}
			}
			if r.min > r.max {
				p.add(v, w+".max", fmt.Sprintf("%d is below %s.min = %d", r.max, w, r.min), "raise it")
			}
			c.ints[kinds[w]] = r
		} else {
			r := floatRange{min: v.Float(w + ".min"), max: v.Float(w + ".max")}
			r.template = template(p, v, w+".template", float)
			if !(r.min <= r.max) || w == "float" && (math.IsInf(float64(float32(r.min)), 0) || math.IsInf(float64(float32(r.max)), 0)) {
				p.add(v, w+".max", fmt.Sprintf("%v to %v is no range of %s", r.min, r.max, w), "")
			}
			c.floats[kinds[w]] = r
		}
		needTemplate(p, v, w, given)
	}
	needTemplate(p, v, "string", len(c.strings))
}

func needTemplate(p *problems, v option.Values, word string, given int) {
	if v.String(word+".fake.mode") == "TEMPLATE" && given == 0 {
		p.add(v, word+".fake.mode", fmt.Sprintf("the mode is template and %s.template is empty", word), "set "+word+".template = [ … ]")
	}
}

func (c *config) checkDefault(p *problems, v option.Values, col schema.Column) {
	b := batch.NewBuilder(batch.NewSchema(&schema.Table{Columns: []schema.Column{col}}, 0))
	if err := appendDefault(b.Field(0), col); err != nil {
		p.add(v, "schema", fmt.Sprintf("column %s: default %s", col.Name, err), "")
	}
}

// readRows reads the literal rows.
func (c *config) readRows(p *problems, v option.Values) {
	r := value.Reader{Now: time.Now()}
	b := batch.NewBuilder(batch.NewSchema(c.table, 0))
	values := make([]*option.Node, len(c.table.Columns))
	c.isLit = true
	fail := func(i int, at *option.Node, err error) {
		var e *value.Error
		pos, found := at.Pos, err.Error()
		if errors.As(err, &e) && !e.Pos.IsZero() {
			pos = e.Pos
		}
		p.Add(pos, fmt.Sprintf("%s[%d]", v.Path("rows"), i), found, "")
	}
	for i, row := range v.Subs("rows") {
		kind, err := schema.ParseRowKind(row.String("kind"))
		if err != nil {
			fail(i, row.Raw(), err)
			continue
		}
		node := row.Node("fields")
		clear(values)
		if err := value.Fields(c.table.Columns, node, "", values); err != nil {
			fail(i, node, err)
			continue
		}
		ok := true
		for f, col := range c.table.Columns {
			if err := r.Append(b.Field(f), col.Type, values[f]); err != nil {
				fail(i, node, fmt.Errorf("column %s: %w", col.Name, err))
				ok = false
			}
		}
		if !ok {
			return // the builder is broken
		}
		b.EndRow(kind)
	}
	c.literal = b.Finish()
}

// perReader is the number of splits of one subtask, and the rows of each but the last.
func (c *config) perReader() (splits, rows int64) {
	if c.isLit {
		if c.literal == nil {
			return 0, 0
		}
		return 1, int64(c.literal.Rows)
	}
	if c.rowNum == 0 {
		return 0, 0
	}
	rows = (c.rowNum + c.splitNum - 1) / c.splitNum
	return (c.rowNum + rows - 1) / rows, rows
}
