package record

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/state"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// records are all values of the tree.
var records = []any{Leader{}, Meta{}, Spec{}, PlanHead{}, JobStatus{}, History{}, Word{}, Placement{}, Assignment{}, Grant{}, Worker{}, Fenced{}, TaskStatus{}, Ack{}, Checkpoint{}, Manifest{}, checkpoint.State{}}

func fields(t reflect.Type, path string, out *[]string) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		if t.Elem().Kind() != reflect.Uint8 {
			fields(t.Elem(), path, out)
			return
		}
	case reflect.Map:
		fields(t.Elem(), path+"{}", out)
		return
	case reflect.Struct:
		if t == reflect.TypeOf(time.Time{}) {
			break
		}
		for i := range t.NumField() {
			f := t.Field(i)
			tag := f.Tag.Get("json")
			name, _, _ := strings.Cut(tag, ",")
			if f.Anonymous && name == "" {
				fields(f.Type, path, out)
				continue
			}
			fields(f.Type, path+"."+tag, out)
		}
		return
	}
	*out = append(*out, path+" "+t.Kind().String())
}

// TestGolden: the field names are a public interface. A change of the golden file is a decision to explain in its
// commit; names are added, not renamed.
func TestGolden(t *testing.T) {
	var out []string
	for _, r := range records {
		fields(reflect.TypeOf(r), reflect.TypeOf(r).Name(), &out)
	}
	got := strings.Join(out, "\n") + "\n"
	const file = "testdata/v1/fields.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("field names changed:\n%s\nwant\n%s", got, want)
	}
}

// fill sets every field of v to something that is not its zero value.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeOf(time.Time{}) {
			v.Set(reflect.ValueOf(time.Unix(1700000000+int64(*n), 0).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(v.Index(i), n)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(k, n)
		fill(e, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(k, e)
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8:
		v.SetUint(uint64(*n % 200))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	default:
		panic(v.Kind())
	}
}

func roundTrip[T any](t *testing.T) {
	t.Helper()
	var v T
	n := 0
	fill(reflect.ValueOf(&v).Elem(), &n)
	if h := reflect.ValueOf(&v).Elem().FieldByName("APIVersion"); h.IsValid() {
		h.SetString(APIVersion)
	}
	data := MustEncode(&v)
	back, err := Decode[T](data)
	if err != nil || !reflect.DeepEqual(*back, v) {
		t.Errorf("%T: %+v, %v; want %+v", v, back, err, v)
	}
	// A field of a newer build survives a rewrite, at its place in the old value.
	var raw map[string]any
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	raw["later"] = map[string]any{"x": []any{"y"}}
	old, _ := json.Marshal(raw)
	again, err := Encode(&v, old)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(again, &got); err != nil || !reflect.DeepEqual(got, raw) {
		t.Errorf("%T: rewritten as %s, %v; want the fields of %s", v, again, err, old)
	}
}

func TestRoundTrip(t *testing.T) {
	roundTrip[Leader](t)
	roundTrip[Meta](t)
	roundTrip[Spec](t)
	roundTrip[PlanHead](t)
	roundTrip[JobStatus](t)
	roundTrip[History](t)
	roundTrip[Word](t)
	roundTrip[Placement](t)
	roundTrip[Assignment](t)
	roundTrip[Grant](t)
	roundTrip[Worker](t)
	roundTrip[TaskStatus](t)
	roundTrip[Ack](t)
	roundTrip[Checkpoint](t)
	roundTrip[Manifest](t)
}

func TestNewerIsRefused(t *testing.T) {
	if _, err := Decode[Word]([]byte(`{"apiVersion":"strait/v2","attempt":"?"}`)); !errors.Is(err, ErrNewer) {
		t.Error(err)
	}
	for _, text := range []string{"", "cancelled", "[]", `"x"`, "{", `{"attempt":"x"}`} {
		if v, err := Decode[Word]([]byte(text)); err == nil {
			t.Errorf("%q was decoded as %+v", text, v)
		}
	}
	if v, err := Decode[Spec]([]byte(`{"text":"env {}"}`)); err != nil || v.Text != "env {}" {
		t.Errorf("a record put by hand without apiVersion: %+v, %v", v, err)
	}
}

func TestEncodeOverGarbage(t *testing.T) {
	for _, old := range []string{"", "x", "[1]", "null", "{}"} {
		got, err := Encode(&Meta{Header: Head, Cluster: "c"}, []byte(old))
		if err != nil || !strings.Contains(string(got), `"cluster":"c"`) {
			t.Errorf("over %q: %s, %v", old, got, err)
		}
	}
}

func TestParseWish(t *testing.T) {
	for in, want := range map[string]string{"running": WishRunning, " cancelled\n": WishCancelled, "savepoint": WishSavepoint, "stopped\r\n": WishStopped} {
		if got, err := ParseWish([]byte(in)); err != nil || got != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "canceled", "Cancelled", "cancelled now", `"cancelled"`, strings.Repeat("x", 1<<20)} {
		if got, err := ParseWish([]byte(in)); err == nil {
			t.Errorf("%q was read as %q", in, got)
		} else if len(err.Error()) > 250 {
			t.Errorf("error of %d bytes", len(err.Error()))
		}
	}
}

func TestCommonProtocol(t *testing.T) {
	for _, x := range []struct {
		a, b [2]int
		v    int
		ok   bool
	}{{[2]int{1, 1}, [2]int{1, 1}, 1, true}, {[2]int{1, 3}, [2]int{2, 5}, 3, true}, {[2]int{1, 1}, [2]int{2, 2}, 1, false}, {[2]int{1, 1}, [2]int{}, 0, false}} {
		if v, ok := CommonProtocol(x.a, x.b); ok != x.ok || ok && v != x.v {
			t.Errorf("%v and %v: %d, %v", x.a, x.b, v, ok)
		}
	}
}

func TestPack(t *testing.T) {
	random := make([]byte, 3*ChunkBytes+17)
	for i := range random {
		random[i] = byte(i * i >> 3)
	}
	random = append(random, []byte(strings.Repeat("a", 1<<20))...)
	for _, data := range [][]byte{{}, []byte("x"), random} {
		c, parts := Pack(data)
		got, err := Unpack(c, parts)
		if err != nil || string(got) != string(data) {
			t.Fatalf("%d bytes: %v", len(data), err)
		}
		if _, err := Unpack(c, append(parts, []byte("x"))); err == nil {
			t.Error("a chunk too many")
		}
		c.SHA256 = strings.Repeat("0", 64)
		if _, err := Unpack(c, parts); err == nil {
			t.Error("another checksum")
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"strait/v1","attempt":3,"phase":"running","barrier":{"id":1}}`))
	f.Add([]byte(`{"a":1,"a":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := Decode[Word](data)
		if err != nil {
			return
		}
		once, err := Encode(w, data)
		if err != nil {
			t.Fatal(err)
		}
		w2, err := Decode[Word](once)
		if err != nil {
			t.Fatalf("%s became %s: %v", data, once, err)
		}
		twice, err := Encode(w2, once)
		if err != nil || canonical(t, once) != canonical(t, twice) {
			t.Fatalf("re-encoding is not stable: %s, %s, %v", once, twice, err)
		}
	})
}

func canonical(t *testing.T, data []byte) string {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	var names []string
	for k, v := range m {
		names = append(names, k+"="+string(v))
	}
	sort.Strings(names)
	return strings.Join(names, ",")
}

func TestWorkerWish(t *testing.T) {
	at := time.Date(2030, 1, 31, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]struct {
		word  string
		until time.Time
	}{
		"": {WorkerActive, time.Time{}}, "active": {WorkerActive, time.Time{}}, "drain\n": {WorkerDrain, time.Time{}},
		" drain  until=2030-01-31T12:00:00Z\n": {WorkerDrain, at}, "drain until=2030-01-31T13:00:00+01:00": {WorkerDrain, at},
		string(DrainWish(at)): {WorkerDrain, at}, string(DrainWish(time.Time{})): {WorkerDrain, time.Time{}},
	} {
		word, until, err := ParseWorkerWish([]byte(in))
		if err != nil || word != want.word || until != want.until {
			t.Errorf("%q: %q, %v, %v", in, word, until, err)
		}
	}
	for in, says := range map[string]string{
		"drained": "write active, drain or", "drain now": "write active", "active until=2030-01-31T12:00:00Z": "write active", "until=2030-01-31T12:00:00Z": "write active",
		"drain until=tomorrow": "drain until=2030-01-31T12:00:00Z", "drain until=": "is not a time", strings.Repeat(" ", 200): "not known",
		"drain until=2030-01-31T12:00:00Z again": "not known",
	} {
		if word, until, err := ParseWorkerWish([]byte(in)); err == nil || !strings.Contains(err.Error(), says) || word != "" || !until.IsZero() {
			t.Errorf("%q: %q, %v, %v", in, word, until, err)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	c, parts := Pack([]byte(strings.Repeat("plan", 1000)))
	f.Add(c.Number, c.SHA256, c.Size, parts[0])
	f.Fuzz(func(t *testing.T, n int, sum string, size int, part []byte) {
		data, err := Unpack(Chunks{Number: n, SHA256: sum, Size: size}, [][]byte{part})
		if err == nil && len(data) != size {
			t.Fatalf("%d bytes, named %d", len(data), size)
		}
	})
}

// The phases of a golden status stay spelled as they are.
func TestWordsOfStates(t *testing.T) {
	w := Word{Header: Head, Attempt: 2, Scope: ScopeCommitters, Phase: state.PipelineClosing, Outcome: Cancelled,
		Barrier: Barrier{ID: 1, Kind: checkpoint.Final, State: BarrierAborted}, Holders: []Holder{{Worker: "w1", Incarnation: 9, Attempt: 1, Wait: 40, Waiting: true}},
		Skip: []plan.VertexID{"sink.Assert.0"}}
	const want = `{"apiVersion":"strait/v1","attempt":2,"scope":"committers","phase":"closing","outcome":"cancelled","barrier":{"id":1,"kind":"final","state":"aborted"},"completed":0,"committed":0,"restore":0,"skip":["sink.Assert.0"],"holders":[{"worker":"w1","incarnation":9,"attempt":1,"wait":40,"waiting":true}]}`
	if got := string(MustEncode(&w)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
