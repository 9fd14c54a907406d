package kv_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"strait/kv"
	"strait/kv/kvtest"
)

func TestProbe(t *testing.T) {
	e := kvtest.New(t)
	mute, err := net.Listen("tcp", "127.0.0.1:0") // open, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	up := e.Server.Endpoints()[0]
	got := kv.Probe(kvtest.Context(t), kv.Config{Endpoints: []string{gone.Addr().String(), up, mute.Addr().String()}, DialTimeout: 2 * time.Second})
	if len(got) != 3 || !errors.Is(got[0].Err, kv.ErrUnreachable) || !errors.Is(got[2].Err, kv.ErrUnreachable) {
		t.Fatalf("%+v", got)
	}
	h := got[1]
	if h.Err != nil || h.Endpoint != up || h.Latency <= 0 || h.Cluster != e.Store.ClusterID() || h.Member == 0 || h.Leader != h.Member || h.Version == "" || h.Size <= 0 || len(h.Alarms) > 0 {
		t.Errorf("%+v", h)
	}
}

func TestListKeys(t *testing.T) {
	e := kvtest.New(t)
	e.Put(t, "/a/1", "one")
	e.Put(t, "/a/2", "two")
	e.Put(t, "/b", "three")
	full, rev, err := e.Store.List(kvtest.Context(t), "/a/", 0)
	if err != nil {
		t.Fatal(err)
	}
	keys, at, err := e.Store.ListKeys(kvtest.Context(t), "/a/", 0)
	if err != nil || at != rev || len(keys) != 2 {
		t.Fatalf("%+v at %d, %v", keys, at, err)
	}
	for i, k := range keys {
		if k.Key != full[i].Key || k.ModRev != full[i].ModRev || k.CreateRev != full[i].CreateRev || len(k.Value) > 0 {
			t.Errorf("%+v, want %+v without a value", k, full[i])
		}
	}
}
