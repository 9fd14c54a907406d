package task

import (
	"sort"
	"sync/atomic"
	"time"

	"strait/kv/record"
	"strait/plan"
	"strait/plan/schema"
	"strait/transport/batch"
)

// tally counts rows and bytes of one table at one vertex of one subtask. One goroutine adds, anybody reads.
type tally struct{ rowsIn, rowsOut, bytesIn, bytesOut atomic.Int64 }

func (t *tally) in(rows int, bytes int64)  { t.rowsIn.Add(int64(rows)); t.bytesIn.Add(bytes) }
func (t *tally) out(rows int, bytes int64) { t.rowsOut.Add(int64(rows)); t.bytesOut.Add(bytes) }

func (t *tally) counters() record.Counters {
	return record.Counters{RowsIn: t.rowsIn.Load(), RowsOut: t.rowsOut.Load(), BytesIn: t.bytesIn.Load(), BytesOut: t.bytesOut.Load()}
}

// vertexCount counts one vertex at one subtask, by table.
type vertexCount struct {
	vertex plan.VertexID
	names  []string // of the tables
	tables []tally
	// Where the time of the group goes is noted at its first vertex.
	idle, blocked, busy atomic.Int64
	throttled           atomic.Int64 // ns that the reader waited for the limit of its job
}

func newVertexCount(v plan.VertexID, tables []*schema.Table) *vertexCount {
	c := &vertexCount{vertex: v, tables: make([]tally, len(tables))}
	for _, t := range tables {
		c.names = append(c.names, t.Path.String())
	}
	return c
}

// table is the tally of the table a batch belongs to.
func (c *vertexCount) table(b *batch.Batch) *tally { return &c.tables[b.Schema.Index] }

// Count is what a vertex has done on this worker.
type Count struct {
	Vertex plan.VertexID
	record.Counters
	Tables              map[string]record.Counters
	Idle, Blocked, Busy time.Duration // summed over subtasks
	Throttled           time.Duration // likewise; of a source: waited for env.read_limit
}

// sumCounts adds up the counts of the subtasks of each vertex, in the order of vertices.
func sumCounts(all []*vertexCount) []Count {
	var out []Count
	at := map[plan.VertexID]int{}
	for _, c := range all {
		i, ok := at[c.vertex]
		if !ok {
			i = len(out)
			at[c.vertex] = i
			out = append(out, Count{Vertex: c.vertex, Tables: map[string]record.Counters{}})
		}
		for t := range c.tables {
			n := c.tables[t].counters()
			out[i].Add(n)
			sum := out[i].Tables[c.names[t]]
			sum.Add(n)
			out[i].Tables[c.names[t]] = sum
		}
		out[i].Idle += time.Duration(c.idle.Load())
		out[i].Blocked += time.Duration(c.blocked.Load())
		out[i].Busy += time.Duration(c.busy.Load())
		out[i].Throttled += time.Duration(c.throttled.Load())
	}
	return out
}

// Records are the counts in the form of statuses, by vertex id.
func Records(counts []Count) []record.VertexCount {
	out := make([]record.VertexCount, 0, len(counts))
	for _, c := range counts {
		out = append(out, record.VertexCount{Vertex: c.Vertex, Counters: c.Counters})
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Vertex < out[j].Vertex })
	return out
}
