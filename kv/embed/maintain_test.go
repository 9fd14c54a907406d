package embed_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"strait/kv"
	"strait/kv/embed"
)

// TestFullOfHistory: a store that is full of old revisions empties itself and takes writes again.
func TestFullOfHistory(t *testing.T) {
	notices := make(chan string, 100)
	srv := start(t, embed.Config{DataDir: t.TempDir(), NoFsync: true, QuotaBytes: 4 << 20, Notice: func(s string) { notices <- s }})
	s := open(t, kv.Config{Client: srv.Client()})
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	big := strings.Repeat("x", kv.MaxValue-1)
	var err error
	for err == nil {
		err = put(s, "/big", big)
	}
	if !errors.Is(err, kv.ErrNoSpace) {
		t.Fatal(err)
	}
	for err != nil {
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		err = put(s, "/small", "1")
	}
	if a, b := <-notices, <-notices; !strings.Contains(a, "was defragmented from") || !strings.Contains(b, "was full and takes writes again") {
		t.Error(a, b)
	}
}

// TestFullOfData: a store that is full of live data stays as it is until some are deleted and the quota is raised.
func TestFullOfData(t *testing.T) {
	dir := t.TempDir()
	srv := start(t, embed.Config{DataDir: dir, NoFsync: true, QuotaBytes: 2 << 20})
	s := open(t, kv.Config{Client: srv.Client()})
	big := strings.Repeat("x", kv.MaxValue-1)
	var err error
	for i := 0; err == nil; i++ {
		err = put(s, "/big/"+string(rune('a'+i)), big)
	}
	if !errors.Is(err, kv.ErrNoSpace) || !strings.Contains(err.Error(), "etcd.quota") {
		t.Fatal(err)
	}
	st, err := s.Status(context.Background())
	if err != nil || st.Quota != 2<<20 || len(st.Alarms) == 0 || st.Used == 0 {
		t.Errorf("%+v, %v", st, err)
	}
	_ = s.Close()
	srv.Close()
	// A raised quota is enough: the alarm is taken back.
	srv = start(t, embed.Config{DataDir: dir, NoFsync: true, QuotaBytes: 64 << 20})
	s = open(t, kv.Config{Client: srv.Client()})
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for put(s, "/small", "1") != nil {
		if ctx.Err() != nil {
			t.Fatal("the raised quota does not help")
		}
		time.Sleep(20 * time.Millisecond)
	}
}
