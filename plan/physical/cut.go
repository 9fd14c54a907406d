package physical

import (
	"fmt"

	"strait/plan/config"
	"strait/plan/fault"
	"strait/plan/logical"
)

// maxPipelines bounds what a graph of many merges may fall apart into.
const maxPipelines = 10000

// node is a vertex as one pipeline has it: with some of its inputs.
type node struct {
	v      *logical.Vertex
	inputs []int // places in v.Inputs, ascending
}

// cut splits the Dag. Each pipeline comes as its vertices in topological order.
func cut(d *logical.Dag) ([][]node, error) {
	var out [][]node
	for _, part := range components(d) {
		c := &cutter{dag: d, kept: keptTogether(part), paths: map[*logical.Vertex]int{}}
		if !c.mustCut(part) {
			out = append(out, whole(part))
			continue
		}
		for _, v := range part {
			if v.Section != config.Sink {
				continue
			}
			if len(out)+c.count(v) > maxPipelines {
				return nil, fault.Fatal(fmt.Errorf("the job falls apart into more than %d pipelines, one for each path from a source to a sink; merge fewer inputs, or split the job", maxPipelines))
			}
			out = append(out, c.pathsTo(v)...)
		}
	}
	return out, nil
}

// components gives the connected parts, each in topological order, in the order of their first vertex.
func components(d *logical.Dag) [][]*logical.Vertex {
	root := map[*logical.Vertex]*logical.Vertex{}
	var find func(v *logical.Vertex) *logical.Vertex
	find = func(v *logical.Vertex) *logical.Vertex {
		for root[v] != v {
			root[v] = root[root[v]]
			v = root[v]
		}
		return v
	}
	for _, v := range d.Vertices {
		root[v] = v
	}
	for _, v := range d.Vertices {
		for _, in := range v.Inputs {
			root[find(v)] = find(in)
		}
	}
	index := map[*logical.Vertex]int{}
	var out [][]*logical.Vertex
	for _, v := range d.Vertices {
		r := find(v)
		i, ok := index[r]
		if !ok {
			i = len(out)
			index[r] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], v)
	}
	return out
}

func whole(part []*logical.Vertex) []node {
	out := make([]node, len(part))
	for i, v := range part {
		out[i] = node{v: v, inputs: all(v)}
	}
	return out
}

func all(v *logical.Vertex) []int {
	inputs := make([]int, len(v.Inputs))
	for i := range inputs {
		inputs[i] = i
	}
	return inputs
}

// keptTogether is the set of vertices that need their inputs together, and of all that is before them.
func keptTogether(part []*logical.Vertex) map[*logical.Vertex]bool {
	kept := map[*logical.Vertex]bool{}
	for i := len(part) - 1; i >= 0; i-- { // part is in topological order
		v := part[i]
		if !kept[v] && !v.Together {
			continue
		}
		kept[v] = true
		for _, in := range v.Inputs {
			kept[in] = true
		}
	}
	return kept
}

// cutter cuts one component into paths.
type cutter struct {
	dag   *logical.Dag
	kept  map[*logical.Vertex]bool
	paths map[*logical.Vertex]int
}

// mustCut says that some vertex merely merges its inputs.
func (c *cutter) mustCut(part []*logical.Vertex) bool {
	for _, v := range part {
		if len(v.Inputs) > 1 && !c.kept[v] {
			return true
		}
	}
	return false
}

// count is the number of paths that end in v, as far as it matters.
func (c *cutter) count(v *logical.Vertex) int {
	if n, ok := c.paths[v]; ok {
		return n
	}
	n := 0
	if v.Together || len(v.Inputs) == 0 {
		n = 1
	} else {
		for _, in := range v.Inputs {
			n = min(n+c.count(in), maxPipelines+1)
		}
	}
	c.paths[v] = n
	return n
}

// pathsTo gives every path that ends in v. A vertex that needs its inputs together begins a path with all that is
// before it.
func (c *cutter) pathsTo(v *logical.Vertex) [][]node {
	if v.Together || len(v.Inputs) == 0 {
		return [][]node{c.before(v)}
	}
	var out [][]node
	for i, in := range v.Inputs {
		for _, path := range c.pathsTo(in) {
			out = append(out, append(path[:len(path):len(path)], node{v: v, inputs: []int{i}}))
		}
	}
	return out
}

// before is v with everything before it, uncut.
func (c *cutter) before(v *logical.Vertex) []node {
	need := map[*logical.Vertex]bool{v: true}
	for i := len(c.dag.Vertices) - 1; i >= 0; i-- {
		if u := c.dag.Vertices[i]; need[u] {
			for _, in := range u.Inputs {
				need[in] = true
			}
		}
	}
	var part []*logical.Vertex
	for _, u := range c.dag.Vertices {
		if need[u] {
			part = append(part, u)
		}
	}
	return whole(part)
}
