package kv

import (
	"context"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Health is what one endpoint of etcd says, asked by itself.
type Health struct {
	Endpoint string
	Err      error         // why it does not serve; what follows may be known all the same
	Latency  time.Duration // of a linearizable read: the quorum answers
	Cluster  uint64
	Member   uint64
	Leader   uint64 // 0: the member knows of none
	Learner  bool
	Status
}

// Probe asks every endpoint of c by itself, at once, each within DialTimeout. It needs no Store and reads no key.
func Probe(ctx context.Context, c Config) []Health {
	if c.DialTimeout <= 0 {
		c.DialTimeout = DefaultDialTimeout
	}
	out := make([]Health, len(c.Endpoints))
	var g sync.WaitGroup
	for i, endpoint := range c.Endpoints {
		g.Go(func() { out[i] = probeOne(ctx, c, endpoint) })
	}
	g.Wait()
	return out
}

func probeOne(ctx context.Context, c Config, endpoint string) Health {
	h := Health{Endpoint: endpoint}
	c.Endpoints, c.Client = []string{endpoint}, nil
	ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	cli, err := dial(c)
	if err != nil {
		h.Err = openError(c, err)
		return h
	}
	defer func() { _ = cli.Close() }()
	st, err := cli.Status(ctx, endpoint)
	if err != nil {
		h.Err = openError(c, err)
		return h
	}
	h.Cluster, h.Member, h.Leader, h.Learner = st.Header.ClusterId, st.Header.MemberId, st.Leader, st.IsLearner
	h.Status = Status{Version: st.Version, Size: st.DbSize, Used: st.DbSizeInUse, Quota: st.DbSizeQuota}
	for _, e := range st.Errors { // alarms, and that there is no leader, which is known
		if !strings.Contains(e, "no leader") {
			h.Alarms = append(h.Alarms, e)
		}
	}
	began := time.Now()
	key := c.Probe // which this user may read
	if key == "" {
		key = "\x00"
	}
	if _, err := cli.Get(ctx, key, clientv3.WithCountOnly()); err != nil {
		h.Err = callError("read", "", err, false)
		return h
	}
	h.Latency = time.Since(began)
	return h
}
