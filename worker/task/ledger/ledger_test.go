package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"strait/worker/connector"
)

func split(i int) connector.Split { return connector.Split{ID: strconv.Itoa(i)} }

func found(done bool, ids ...int) connector.Discovery {
	d := connector.Discovery{Cursor: []byte("c"), Done: done}
	for _, i := range ids {
		d.Splits = append(d.Splits, split(i))
	}
	return d
}

func deals(ds []Deal) string {
	s := ""
	for _, d := range ds {
		s += fmt.Sprintf("%d:", d.Reader)
		for _, x := range d.Splits {
			s += x.ID
			if x.Position != nil {
				s += "@" + string(x.Position)
			}
			s += ","
		}
		if d.NoMore {
			s += "end,"
		}
	}
	return s
}

func dealt(e *Enumerator) string {
	ds, _ := e.Deal()
	return deals(ds)
}

// TestSpread: small local splits are not all taken by the reader that registers first.
func TestSpread(t *testing.T) {
	e := NewEnumerator(3)
	e.Discover(found(true, 0, 1, 2, 3, 4))
	for r := range 3 {
		if got := dealt(e); got != "" {
			t.Fatalf("dealt %q before all readers were there", got)
		}
		if err := e.Register(r); err != nil {
			t.Fatal(err)
		}
	}
	if got := dealt(e); got != "0:0,1:1,2:2," {
		t.Errorf("dealt %q", got)
	}
	if err := e.Ask(1, []string{"1"}); err != nil {
		t.Fatal(err)
	}
	if got := dealt(e); got != "1:3," {
		t.Errorf("dealt %q", got)
	}
	for _, r := range []int{2, 0} {
		if err := e.Ask(r, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := dealt(e); got != "2:4,0:end," {
		t.Errorf("dealt %q", got)
	}
	if !e.Drained() {
		t.Error("not drained")
	}
	// Who registers anew is told again.
	if err := e.Register(0); err != nil {
		t.Fatal(err)
	}
	if got := dealt(e); got != "0:end," {
		t.Errorf("dealt %q", got)
	}
}

func TestManySmallSplitsTravelTogether(t *testing.T) {
	e := NewEnumerator(2)
	var ids []int
	for i := range 100 {
		ids = append(ids, i)
	}
	e.Discover(found(true, ids...))
	handed := map[string]int{}
	for r := range 2 {
		if err := e.Register(r); err != nil {
			t.Fatal(err)
		}
	}
	rounds := 0
	for ds, _ := e.Deal(); len(ds) > 0 && !ds[0].NoMore; ds, _ = e.Deal() {
		rounds++
		for _, d := range ds {
			for _, s := range d.Splits {
				handed[s.ID]++
			}
			if err := e.Ask(d.Reader, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(handed) != 100 || rounds > 20 {
		t.Errorf("%d splits in %d rounds", len(handed), rounds)
	}
}

func TestDealsAreBounded(t *testing.T) {
	e := NewEnumerator(20)
	d := connector.Discovery{Done: true}
	for i := range 40 {
		d.Splits = append(d.Splits, connector.Split{ID: strconv.Itoa(i), Data: make([]byte, 100<<10)})
	}
	e.Discover(d)
	for r := range 20 {
		if err := e.Register(r); err != nil {
			t.Fatal(err)
		}
	}
	served := 0
	for more := true; more; {
		var ds []Deal
		ds, more = e.Deal()
		bytes := 0
		for _, d := range ds {
			if len(d.Splits) != 1 {
				t.Errorf("%d splits of 100 KiB at once", len(d.Splits))
			}
			bytes += 100 << 10
		}
		if bytes > maxBurst+maxDealBytes {
			t.Errorf("a burst of %d bytes", bytes)
		}
		served += len(ds)
	}
	if served != 20 {
		t.Errorf("%d of 20 readers served", served)
	}
	long := make([]string, 3000)
	if n := Fit(long); n != maxIDs {
		t.Errorf("%d ids in a frame", n)
	}
	long[0], long[1] = strings.Repeat("x", maxText+1), "y"
	if n := Fit(long); n != 1 {
		t.Errorf("%d ids in a frame", n)
	}
}

func TestFaults(t *testing.T) {
	e := NewEnumerator(2)
	e.Discover(found(false, 0))
	for r := range 2 {
		if err := e.Register(r); err != nil {
			t.Fatal(err)
		}
	}
	dealt(e)
	for _, err := range []error{e.Register(2), e.Ask(-1, nil), e.Ask(1, []string{"0"}), e.Ask(0, []string{"7"})} {
		if err == nil {
			t.Error("a faulty frame is taken")
		}
	}
	var r Reader
	h := []Handed{{Split: split(0)}}
	if err := r.Assign(h); err != nil {
		t.Fatal(err)
	}
	if r.Assign(h) == nil {
		t.Error("a split is taken twice")
	}
	if r.Passed("1", nil, false) == nil {
		t.Error("rows of a split that is not held")
	}
	if err := r.Passed("0", nil, true); err != nil {
		t.Fatal(err)
	}
	if r.Assign(h) == nil {
		t.Error("a finished split is taken again")
	}
}

func TestReaderAsks(t *testing.T) {
	var r Reader
	r.Registered()
	ask := func(ahead bool, want string) {
		t.Helper()
		done, ok := r.Ask(ahead)
		if got := fmt.Sprint(done, ok); got != want {
			t.Errorf("Ask(%v) = %s, want %s", ahead, got, want)
		}
	}
	ask(true, "[] false")
	if err := r.Assign([]Handed{{Split: split(0)}, {Split: split(1)}}); err != nil {
		t.Fatal(err)
	}
	ask(false, "[] false")
	_ = r.Passed("0", nil, true)
	ask(false, "[] false")
	ask(true, "[0] true") // read, not yet passed
	ask(true, "[] false")
	r.NoMore()
	if r.Drained() {
		t.Error("drained with a split in hand")
	}
	_ = r.Passed("1", nil, true)
	if !r.Drained() {
		t.Error("not drained")
	}
}

func TestMergeRefusesDamage(t *testing.T) {
	e := NewEnumerator(2)
	e.Discover(found(true, 0, 1))
	_ = e.Register(0)
	_ = e.Register(1)
	before := e.Snapshot(1)
	e.Deal()
	after := e.Snapshot(2)
	holds := func(ids ...int) []byte {
		var r Reader
		for _, i := range ids {
			_ = r.Assign([]Handed{{Split: split(i)}})
		}
		return r.Snapshot()
	}
	f := func(name string, enumerator []byte, parts ...[]byte) {
		t.Helper()
		if _, err := Merge(enumerator, parts, 2); err == nil {
			t.Errorf("%s is merged", name)
		} else {
			t.Log(err)
		}
	}
	f("a reader that knows what was not handed out", before, holds(0))
	f("a split with two readers", after, holds(0), holds(0))
	f("an unknown split", after, holds(9))
	f("rubbish", []byte("{"))
	f("a rubbish part", after, []byte("7"))
	f("a newer version", []byte(`{"version":2}`))
	f("no version", []byte(`{}`))
	f("a split twice", []byte(`{"version":1,"splits":[{"id":"a","state":"finished"},{"id":"a","state":"finished"}]}`))
	f("an unknown state", []byte(`{"version":1,"splits":[{"id":"a","state":"x"}]}`))
	if _, err := Merge(after, [][]byte{holds(0), holds(1)}, 5); err != nil {
		t.Error(err)
	}
}

func TestSnapshotsAreStable(t *testing.T) {
	e := NewEnumerator(1)
	e.Discover(found(false, 3, 1, 2))
	_ = e.Register(0)
	e.Deal()
	a := e.Snapshot(1)
	m, err := Merge(a, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	if string(m.Cursor()) != "c" || m.Done() {
		t.Errorf("cursor %q, done %v", m.Cursor(), m.Done())
	}
	if w, r, d := m.Counts(); w != 3 || r != 0 || d != 0 {
		t.Errorf("%d waiting, %d read, %d done", w, r, d)
	}
	if b := e.Snapshot(1); !bytes.Equal(a, b) {
		t.Errorf("%s, then %s", a, b)
	}
}

func TestCut(t *testing.T) {
	var c Cut[string]
	c.Offer(0, "a")
	c.Offer(1, "b")
	c.Offer(2, "c")
	take := func(want ...string) {
		t.Helper()
		if got := c.Take(); !slices.Equal(got, want) {
			t.Errorf("took %v, want %v", got, want)
		}
	}
	take("a")
	take()
	c.Handled(1)
	take("b")
	c.Settled(2) // aborted: never handled here
	take("c")
	if c.Tag() != 1 || !c.Empty() {
		t.Error("tag or queue")
	}
}

func TestFrames(t *testing.T) {
	for _, f := range []*Frame{
		{Kind: Register, Vertex: "source.A.0", Subtask: 3, Attempt: 9},
		{Kind: Ask, Vertex: "v", Barrier: 1 << 40, IDs: []string{"", "x", "long id"}},
		{Kind: Assign, Vertex: "v", Splits: []Handed{{Split: connector.Split{ID: "1"}}, {Split: connector.Split{ID: "2", Data: []byte{}}, Position: []byte{0}}}},
		{Kind: NoMore, Vertex: "v"},
		{Kind: Covered, Vertex: "v", IDs: []string{"q"}},
	} {
		data := f.Append(nil)
		got, err := Decode(data)
		if err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("%+v came back as %+v, %v", f, got, err)
		}
		for n := range data {
			if _, err := Decode(data[:n]); err == nil {
				t.Errorf("%d of %d bytes are a frame", n, len(data))
			}
		}
	}
	if _, err := Decode([]byte{2, 1}); err == nil {
		t.Error("a newer version is read")
	}
}

func FuzzFrame(f *testing.F) {
	f.Add((&Frame{Kind: Assign, Vertex: "v", Subtask: 1, Attempt: 2, Barrier: 3, Splits: []Handed{{Split: connector.Split{ID: "a", Data: []byte("d")}, Position: []byte("p")}}, IDs: []string{"x"}}).Append(nil))
	f.Add([]byte{1, 1, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Decode(got.Append(nil))
		if err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("%+v, then %+v, %v", got, again, err)
		}
	})
}

func FuzzMerge(f *testing.F) {
	e := NewEnumerator(1)
	e.Discover(found(false, 1, 2))
	_ = e.Register(0)
	e.Deal()
	var r Reader
	_ = r.Assign([]Handed{{Split: split(1), Position: []byte("5")}})
	f.Add(e.Snapshot(1), r.Snapshot())
	f.Fuzz(func(t *testing.T, a, b []byte) {
		m, err := Merge(a, [][]byte{b}, 2)
		if err != nil {
			return
		}
		one := m.Snapshot(1)
		again, err := Merge(one, nil, 2)
		if err != nil {
			t.Fatal(err)
		}
		two := again.Snapshot(1)
		var x, y any
		_ = json.Unmarshal(one, &x)
		_ = json.Unmarshal(two, &y)
		if !reflect.DeepEqual(x, y) {
			t.Errorf("%s, then %s", one, two)
		}
	})
}
