package file

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/schema"
	"strait/worker/format/field"
)

// expandTable puts the names of a table into a path: ${table_name}, ${database_name:default} and so on. Values
// become one part of the path each.
func expandTable(s string, t *schema.Table) string {
	unique := ""
	for _, c := range t.Constraints {
		if c.Type == "UNIQUE_KEY" {
			var names []string
			for _, col := range c.Columns {
				names = append(names, col.Name)
			}
			unique = strings.Join(names, ",")
			break
		}
	}
	primary := ""
	if t.PrimaryKey != nil {
		primary = strings.Join(t.PrimaryKey.Columns, ",")
	}
	schemaFull := t.Path.Database
	if t.Path.Schema != "" {
		schemaFull = strings.TrimPrefix(t.Path.Database+"."+t.Path.Schema, ".")
	}
	values := map[string]string{
		"database_name": t.Path.Database, "schema_name": t.Path.Schema, "table_name": t.Path.Table,
		"schema_full_name": schemaFull, "table_full_name": t.Path.String(),
		"primary_key": primary, "unique_key": unique, "field_names": strings.Join(t.Names(), ","),
	}
	return substitute(s, func(name string) (string, bool) {
		key, def, hasDef := strings.Cut(name, ":")
		v, ok := values[key]
		if !ok {
			return "", false
		}
		if v == "" && hasDef {
			v = def
		}
		if v == "" {
			return "", true
		}
		return string(escapePart(nil, v)), true
	})
}

// substitute replaces ${name} where value knows it.
func substitute(s string, value func(string) (string, bool)) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			break
		}
		j := strings.IndexByte(s[i:], '}')
		if j < 0 {
			break
		}
		if v, ok := value(s[i+2 : i+j]); ok {
			b.WriteString(s[:i])
			b.WriteString(v)
		} else {
			b.WriteString(s[:i+j+1])
		}
		s = s[i+j+1:]
	}
	b.WriteString(s)
	return b.String()
}

// transactionID is SeaTunnel's form, T_<job>_<10 characters>_<subtask>_<checkpoint>, where the 10 characters stand for
// cluster, pipeline, vertex and attempt: it is unique for ever and the same whoever computes it.
func transactionID(id checkpoint.Identity, n plan.CheckpointID) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%d\x00%s\x00%d", id.Cluster, id.Pipeline, id.Vertex, id.Attempt)
	return fmt.Sprintf("T_%s_%s_%d_%d", escapePart(nil, id.Job), fmt.Sprintf("%016x", h.Sum64())[:10], id.Subtask, n)
}

// vertexDir is the temp folder of a sink: what any of its attempts left lies below.
func vertexDir(tmp string, id checkpoint.Identity) string {
	v := fmt.Sprintf("%s,%d,%s", escapePart(nil, id.Cluster), id.Pipeline, escapePart(nil, string(id.Vertex)))
	return filepath.Join(tmp, "seatunnel", string(escapePart(nil, id.Job)), v)
}

// attemptDir is the temp folder of one attempt, below vertexDir.
func attemptDir(tmp string, id checkpoint.Identity) string {
	return filepath.Join(vertexDir(tmp, id), strconv.FormatInt(int64(id.Attempt), 10))
}

// namer makes file names.
type namer struct {
	expression string
	now        *field.Pattern
	extension  string // with its dot
	single     bool
}

// name is the name of a new file. uuid and now are those of the moment; they are kept by whoever keeps the name.
func (n *namer) name(transaction string, part int, at time.Time) string {
	base := substitute(n.expression, func(name string) (string, bool) {
		switch name {
		case "transactionId":
			return transaction, true
		case "now":
			c := clockOf(at)
			return string(escapePart(nil, string(n.now.Append(nil, &c)))), true
		case "uuid":
			return newUUID(), true
		}
		return "", false
	})
	if !n.single {
		base += "_" + strconv.Itoa(part)
	}
	return base + n.extension
}

func clockOf(t time.Time) field.Clock {
	_, off := t.Zone()
	return field.Clock{Year: t.Year(), Month: int(t.Month()), Day: t.Day(), Hour: t.Hour(), Minute: t.Minute(), Sec: t.Second(), Nano: t.Nanosecond(), Offset: off, HasOffset: true, HasClock: true}
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}
