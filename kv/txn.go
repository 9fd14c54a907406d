package kv

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Limits of a transaction. The server counts guards, operations and read-backs each on its own.
const (
	MaxOps      = 128      // guards, or operations
	MaxTxnBytes = 1 << 20  // keys and values of guards and operations, 32 bytes added for each
	MaxValue    = 64 << 10 // a value must be shorter, bytes
	opOverhead  = 32
)

type guardKind uint8

const (
	guardLeader guardKind = iota + 1
	guardMod
	guardCreate
)

// Guard is a condition of a transaction on one key. Make one with LeaderGuard, AtMod, AtCreate or
// Absent.
type Guard struct {
	Key  string
	Rev  int64
	kind guardKind
}

// LeaderGuard holds while the leadership key still has the create revision it was won with. Its
// failure is ErrDeposed.
func LeaderGuard(key string, createRev int64) Guard { return Guard{key, createRev, guardLeader} }

// AtMod holds while key has the mod revision it was read at; 0: it does not exist. Absence is no safe
// version: a key made and deleted in between looks untouched.
func AtMod(key string, modRev int64) Guard { return Guard{key, modRev, guardMod} }

// AtCreate holds while key is the incarnation that was read, whatever its value; 0: absent.
func AtCreate(key string, createRev int64) Guard { return Guard{key, createRev, guardCreate} }

// Absent holds while key does not exist.
func Absent(key string) Guard { return Guard{key, 0, guardMod} }

// At holds while the entry is as it was read, present or absent.
func At(e Entry) Guard { return AtMod(e.Key, e.ModRev) }

// String says what the guard wants.
func (g Guard) String() string {
	switch {
	case g.kind == guardLeader:
		return fmt.Sprintf("%s to lead with create revision %d", g.Key, g.Rev)
	case g.Rev == 0:
		return g.Key + " to be absent"
	case g.kind == guardCreate:
		return fmt.Sprintf("%s at create revision %d", g.Key, g.Rev)
	}
	return fmt.Sprintf("%s at mod revision %d", g.Key, g.Rev)
}

func (g Guard) holds(e Entry) bool {
	if g.kind == guardMod {
		return e.ModRev == g.Rev
	}
	return e.CreateRev == g.Rev
}

func (g Guard) cmp() clientv3.Cmp {
	if g.kind == guardMod {
		return clientv3.Compare(clientv3.ModRevision(g.Key), "=", g.Rev)
	}
	return clientv3.Compare(clientv3.CreateRevision(g.Key), "=", g.Rev)
}

// Op is one write of a transaction. Make one with Put, PutLeased, Delete or DeletePrefix.
type Op struct {
	Key    string
	Value  []byte
	Lease  int64
	delete bool
	prefix bool
}

// Put writes key. An existing lease of the key is dropped.
func Put(key string, value []byte) Op { return Op{Key: key, Value: value} }

// PutLeased writes key on a lease: the store deletes it when the lease ends. A lease that is gone
// makes the transaction fail with ErrLeaseNotFound.
func PutLeased(key string, value []byte, lease int64) Op {
	return Op{Key: key, Value: value, Lease: lease}
}

// Delete removes key; an absent one is no error.
func Delete(key string) Op { return Op{Key: key, delete: true} }

// DeletePrefix removes every key that begins with prefix, which must not be empty.
func DeletePrefix(prefix string) Op { return Op{Key: prefix, delete: true, prefix: true} }

func (o Op) op() clientv3.Op {
	switch {
	case o.prefix:
		return clientv3.OpDelete(o.Key, clientv3.WithPrefix())
	case o.delete:
		return clientv3.OpDelete(o.Key)
	case o.Lease != 0:
		return clientv3.OpPut(o.Key, string(o.Value), clientv3.WithLease(clientv3.LeaseID(o.Lease)))
	}
	return clientv3.OpPut(o.Key, string(o.Value))
}

// Size is what the operation counts against MaxTxnBytes, so that callers can cut long lists.
func (o Op) Size() int { return len(o.Key) + len(o.Value) + opOverhead }

// Txn is a set of writes that all happen at one revision if every guard holds, or not at all.
type Txn struct {
	Guards []Guard // at least one
	Ops    []Op    // none: only the guards are checked
}

// Result is the outcome of a transaction that was done.
type Result struct {
	Rev     int64 // the ModRev of everything it put
	Deleted int64 // keys its deletes removed
}

// Check reports what the store would refuse, before anything is sent. Errors are *Limit.
func (t Txn) Check() error {
	if len(t.Guards) == 0 {
		// Invariant 3: no blind writes.
		return &Limit{What: "a transaction without a guard; name the leadership or the revision it was decided on"}
	}
	if len(t.Guards) > MaxOps {
		return &Limit{Key: t.Guards[MaxOps].Key, What: fmt.Sprintf("%d guards in one transaction, at most %d are allowed; cut it", len(t.Guards), MaxOps)}
	}
	if len(t.Ops) > MaxOps {
		return &Limit{Key: t.Ops[MaxOps].Key, What: fmt.Sprintf("%d operations in one transaction, at most %d are allowed; cut it", len(t.Ops), MaxOps)}
	}
	size := 0
	for _, g := range t.Guards {
		if g.Key == "" || g.kind == 0 {
			return &Limit{What: "BUG: an empty guard"}
		}
		if g.kind == guardLeader && g.Rev <= 0 {
			return &Limit{Key: g.Key, What: "BUG: a leadership guard without its create revision"}
		}
		size += len(g.Key) + opOverhead
	}
	for _, o := range t.Ops {
		if o.Key == "" {
			return &Limit{What: "BUG: an operation without a key"}
		}
		if len(o.Value) >= MaxValue {
			return &Limit{Key: o.Key, What: fmt.Sprintf("value of %d bytes, it must be under %d; store it in chunks or in checkpoint storage", len(o.Value), MaxValue)}
		}
		if size += o.Size(); size > MaxTxnBytes {
			return &Limit{Key: o.Key, What: fmt.Sprintf("with this key the transaction is over %d bytes; cut it", MaxTxnBytes)}
		}
	}
	return t.checkTwice()
}

// checkTwice refuses what the server calls a duplicate key: a put beside a put or delete of its key.
func (t Txn) checkTwice() error {
	puts := make([]string, 0, len(t.Ops))
	for _, o := range t.Ops {
		if !o.delete {
			puts = append(puts, o.Key)
		}
	}
	slices.Sort(puts)
	for i := 1; i < len(puts); i++ {
		if puts[i] == puts[i-1] {
			return &Limit{Key: puts[i], What: "put twice in one transaction"}
		}
	}
	for _, o := range t.Ops {
		if !o.delete {
			continue
		}
		i, found := slices.BinarySearch(puts, o.Key)
		if found || o.prefix && i < len(puts) && strings.HasPrefix(puts[i], o.Key) {
			return &Limit{Key: puts[i], What: "put and deleted in one transaction"}
		}
	}
	return nil
}

// Txn does all of t at one revision, or nothing. Errors: ErrDeposed, ErrConflict (*Conflict),
// ErrLeaseNotFound, ErrRefused (*Limit or the store's own words), ErrWentBack: nothing was written;
// ErrUnknownOutcome: read before doing it again.
func (s *Store) Txn(ctx context.Context, t Txn) (Result, error) {
	if err := t.Check(); err != nil {
		return Result{}, err
	}
	cmps := make([]clientv3.Cmp, len(t.Guards))
	reads := make([]clientv3.Op, 0, len(t.Guards))
	at := make(map[string]int, len(t.Guards))
	for i, g := range t.Guards {
		cmps[i] = g.cmp()
		if _, ok := at[g.Key]; !ok {
			at[g.Key] = len(reads)
			reads = append(reads, clientv3.OpGet(g.Key))
		}
	}
	ops := make([]clientv3.Op, len(t.Ops))
	for i, o := range t.Ops {
		ops[i] = o.op()
	}
	what, key := "check", t.Guards[0].Key
	if len(t.Ops) > 0 {
		what, key = "write", t.Ops[0].Key
	}
	cctx, mark, done, err := s.begin(ctx)
	if err != nil {
		return Result{}, err
	}
	defer done()
	resp, err := s.cli.Txn(cctx).If(cmps...).Then(ops...).Else(reads...).Commit()
	if err != nil {
		return Result{}, callError(what, key, s.because(ctx, err), len(t.Ops) > 0)
	}
	if err := s.observe(resp.Header, mark); err != nil {
		return Result{}, err
	}
	if resp.Succeeded {
		r := Result{Rev: resp.Header.Revision}
		for _, x := range resp.Responses {
			if d := x.GetResponseDeleteRange(); d != nil {
				r.Deleted += d.Deleted
			}
		}
		return r, nil
	}
	current := func(g Guard) Entry {
		if kvs := resp.Responses[at[g.Key]].GetResponseRange().Kvs; len(kvs) == 1 {
			return toEntry(kvs[0])
		}
		return Entry{Key: g.Key}
	}
	// Deposed before conflict: who no longer leads must not read a conflict as something to redo.
	for _, g := range t.Guards {
		if e := current(g); g.kind == guardLeader && !g.holds(e) {
			return Result{}, &Deposed{Guard: g, Current: e}
		}
	}
	for _, g := range t.Guards {
		if e := current(g); !g.holds(e) {
			return Result{}, &Conflict{Guard: g, Current: e}
		}
	}
	return Result{}, fmt.Errorf("kv: BUG: transaction on %s failed although every guard holds", key)
}
