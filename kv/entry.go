package kv

import (
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// Entry is one key as it was at some revision. A key that does not exist has ModRev 0.
type Entry struct {
	Key       string
	Value     []byte // shared, not to be changed
	CreateRev int64  // revision of the put that created it; the fence of keys on a lease
	ModRev    int64  // revision of the last put
	Lease     int64  // 0: none
}

// Exists tells a key from its absence.
func (e Entry) Exists() bool { return e.ModRev != 0 }

func toEntry(kv *mvccpb.KeyValue) Entry {
	return Entry{Key: string(kv.Key), Value: kv.Value, CreateRev: kv.CreateRevision, ModRev: kv.ModRevision, Lease: kv.Lease}
}

// Lease is a grant of the store.
type Lease struct {
	ID  int64
	TTL time.Duration // the granted one, which may be longer than asked for
}

// Change is one event of a watch. A deletion has Deleted set and an Entry with key and ModRev only.
type Change struct {
	Deleted bool
	Entry   Entry
}

func toChange(ev *clientv3.Event) Change {
	if ev.Type == mvccpb.DELETE {
		return Change{Deleted: true, Entry: Entry{Key: string(ev.Kv.Key), ModRev: ev.Kv.ModRevision}}
	}
	return Change{Entry: toEntry(ev.Kv)}
}
