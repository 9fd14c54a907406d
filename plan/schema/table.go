package schema

import "strings"

// Column is a named type with what a target needs to create it.
type Column struct {
	Name     string  `json:"name"`
	Type     Type    `json:"type"`
	Nullable bool    `json:"nullable"`
	Length   int64   `json:"length,omitempty"` // columnLength, 0: not given
	Scale    int     `json:"columnScale,omitempty"`
	Default  *string `json:"default,omitempty"` // as text
	Comment  string  `json:"comment,omitempty"`
}

// Col is a nullable column of a type.
func Col(name string, t Type) Column { return Column{Name: name, Type: t, Nullable: true} }

// Path names a table. Parts may be empty.
type Path struct {
	Database string `json:"database,omitempty"`
	Schema   string `json:"schema,omitempty"`
	Table    string `json:"table,omitempty"`
}

// DefaultPath names a table to which nobody gave a name: SeaTunnel's default.default.default.
var DefaultPath = Path{Database: "default", Schema: "default", Table: "default"}

// ParsePath reads db.schema.table, db.table or table.
func ParsePath(s string) Path {
	parts := strings.Split(s, ".")
	switch {
	case len(parts) >= 3:
		return Path{parts[0], parts[1], strings.Join(parts[2:], ".")}
	case len(parts) == 2:
		return Path{Database: parts[0], Table: parts[1]}
	}
	return Path{Table: s}
}

// String joins the parts that are there with dots: the form of ${table_full_name} and of metrics.
func (p Path) String() string {
	var parts []string
	for _, s := range []string{p.Database, p.Schema, p.Table} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ".")
}

// PrimaryKey names the columns that identify a row.
type PrimaryKey struct {
	Name    string   `json:"name,omitempty"`
	Columns []string `json:"columns"`
}

// Constraint is an index or another key.
type Constraint struct {
	Name    string             `json:"name,omitempty"`
	Type    string             `json:"type"` // INDEX_KEY, UNIQUE_KEY, FOREIGN_KEY, VECTOR_INDEX_KEY
	Columns []ConstraintColumn `json:"columns"`
}

// ConstraintColumn is one column of a constraint.
type ConstraintColumn struct {
	Name string `json:"name"`
	Sort string `json:"sort,omitempty"` // ASC or DESC
}

// Table is a set of rows of one shape. It is immutable once a plugin has handed it on; Clone before a change.
type Table struct {
	Path        Path         `json:"path"`
	Columns     []Column     `json:"columns"`
	PrimaryKey  *PrimaryKey  `json:"primaryKey,omitempty"`
	Constraints []Constraint `json:"constraints,omitempty"`
	Comment     string       `json:"comment,omitempty"`
	Partition   []string     `json:"partition,omitempty"` // partition columns, where the source knows them
}

// Index is the position of a column by its exact name, or -1.
func (t *Table) Index(name string) int {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return i
		}
	}
	return -1
}

// Names lists the column names in order.
func (t *Table) Names() []string {
	names := make([]string, len(t.Columns))
	for i := range t.Columns {
		names[i] = t.Columns[i].Name
	}
	return names
}

// Clone copies the table so that its slices may be changed; types are shared, they are immutable.
func (t *Table) Clone() *Table {
	c := *t
	c.Columns = append([]Column(nil), t.Columns...)
	c.Constraints = append([]Constraint(nil), t.Constraints...)
	c.Partition = append([]string(nil), t.Partition...)
	if t.PrimaryKey != nil {
		pk := *t.PrimaryKey
		pk.Columns = append([]string(nil), pk.Columns...)
		c.PrimaryKey = &pk
	}
	return &c
}

// SameRow reports whether rows of both tables have the same columns, by name and type in order.
func (t *Table) SameRow(o *Table) bool {
	if len(t.Columns) != len(o.Columns) {
		return false
	}
	for i := range t.Columns {
		if t.Columns[i].Name != o.Columns[i].Name || !t.Columns[i].Type.Equal(o.Columns[i].Type) {
			return false
		}
	}
	return true
}
