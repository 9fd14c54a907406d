package queue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRingIsASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Ring[int]
		var model []int
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"push":  func(*rapid.T) { n++; r.Push(n); model = append(model, n) },
			"front": func(*rapid.T) { n++; r.PushFront(n); model = append([]int{n}, model...) },
			"pop": func(t *rapid.T) {
				v, ok := r.Pop()
				if ok != (len(model) > 0) || ok && v != model[0] {
					t.Fatalf("pop %d %v of %v", v, ok, model)
				}
				if ok {
					model = model[1:]
				}
			},
			"many": func(*rapid.T) {
				for range 3000 {
					n++
					r.Push(n)
					model = append(model, n)
				}
			},
			"drain": func(t *rapid.T) {
				for _, want := range model {
					if v, _ := r.Pop(); v != want {
						t.Fatalf("pop %d, want %d", v, want)
					}
				}
				model = nil
			},
			"": func(t *rapid.T) {
				v, ok := r.Peek()
				if r.Len() != len(model) || ok != (len(model) > 0) || ok && v != model[0] {
					t.Fatalf("len %d peek %d %v, want %v", r.Len(), v, ok, model)
				}
			},
		})
	})
}

func TestBound(t *testing.T) {
	q := New[int](10)
	f := func(bytes int64, want bool) {
		t.Helper()
		if ok, err := q.TryPush(1, bytes); ok != want || err != nil {
			t.Fatalf("push of %d with %d held: %v %v, want %v", bytes, q.Bytes(), ok, err, want)
		}
	}
	f(9, true)
	f(100, true) // a byte was left: one element, whatever its size
	f(0, false)
	if _, ok, _ := q.TryPop(); !ok {
		t.Fatal("nothing to pop")
	}
	f(1, false)
	if _, ok, _ := q.TryPop(); !ok || q.Bytes() != 0 || q.Len() != 0 {
		t.Fatal("not empty")
	}
	f(1, true)
}

func TestCloseWakesAll(t *testing.T) {
	q := New[int](1)
	if err := q.Push(context.Background(), 7, 5); err != nil {
		t.Fatal(err)
	}
	cause := errors.New("gone")
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range 4 {
		wg.Go(func() { errs <- q.Push(context.Background(), 8, 1) })
	}
	time.Sleep(10 * time.Millisecond)
	q.Close(cause)
	q.Close(nil) // the first cause stands
	wg.Wait()
	for range 4 {
		if err := <-errs; !errors.Is(err, cause) {
			t.Fatalf("push: %v", err)
		}
	}
	if v, err := q.Pop(context.Background()); v != 7 || err != nil {
		t.Fatalf("what was queued before: %d %v", v, err)
	}
	for range 4 {
		wg.Go(func() { _, err := q.Pop(context.Background()); errs <- err })
	}
	wg.Wait()
	for range 4 {
		if err := <-errs; !errors.Is(err, cause) {
			t.Fatalf("pop: %v", err)
		}
	}
}

func TestContext(t *testing.T) {
	q := New[int](1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := q.Pop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if _, err := q.TryPush(1, 1); err != nil {
		t.Fatal(err)
	}
	if err := q.Push(ctx, 2, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}

// TestManyToMany: nothing is lost, nothing doubled, each producer's order kept, the bound kept.
func TestManyToMany(t *testing.T) {
	const producers, consumers, each = 4, 3, 2000
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	q := New[[2]int](64)
	var in, out sync.WaitGroup
	for p := range producers {
		in.Go(func() {
			for i := range each {
				if err := q.Push(ctx, [2]int{p, i}, int64(i%50)); err != nil {
					t.Error(err)
				}
				if q.Bytes() > 64+49 {
					t.Errorf("%d bytes held", q.Bytes())
				}
			}
		})
	}
	var mu sync.Mutex
	seen := map[[2]int]int{}
	for range consumers {
		out.Go(func() {
			last := [producers]int{}
			for {
				v, err := q.Pop(ctx)
				if err != nil {
					return
				}
				if v[1]+1 <= last[v[0]] {
					t.Errorf("producer %d: %d after %d", v[0], v[1], last[v[0]]-1)
				}
				last[v[0]] = v[1] + 1
				mu.Lock()
				seen[v]++
				mu.Unlock()
			}
		})
	}
	in.Wait()
	q.Close(nil)
	out.Wait()
	if len(seen) != producers*each {
		t.Errorf("%d of %d", len(seen), producers*each)
	}
	for v, n := range seen {
		if n != 1 {
			t.Errorf("%v came %d times", v, n)
		}
	}
}

func BenchmarkPushPop(b *testing.B) {
	b.ReportAllocs()
	q := New[int](1 << 20)
	for i := range b.N {
		q.TryPush(i, 100)
		q.TryPop()
	}
}
