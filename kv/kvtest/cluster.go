package kvtest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"strait/kv/embed"
)

// Cluster is an etcd of several members in this process.
type Cluster struct {
	Members   []*embed.Server
	Endpoints []string // client addresses, host:port
	configs   []embed.Config
}

// NewCluster starts n members that elect a leader among them; they end with the test.
func NewCluster(t testing.TB, n int) *Cluster {
	t.Helper()
	var peers, members []string
	var held []net.Listener
	for i := range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, ln) // closed behind the last one, so that all differ
		peers = append(peers, ln.Addr().String())
		members = append(members, fmt.Sprintf("m%d=%s", i, peers[i]))
	}
	for _, ln := range held {
		_ = ln.Close()
	}
	c := &Cluster{Members: make([]*embed.Server, n)}
	for i := range n {
		c.configs = append(c.configs, embed.Config{DataDir: t.TempDir(), ListenClient: "127.0.0.1:0", ListenPeer: peers[i], Name: fmt.Sprintf("m%d", i),
			InitialCluster: strings.Join(members, ","), ShortTicks: true})
	}
	c.start(t)
	return c
}

func (c *Cluster) start(t testing.TB) {
	t.Helper()
	var g errgroup.Group
	for i := range c.configs {
		g.Go(func() (err error) {
			c.Members[i], err = embed.Start(Context(t), c.configs[i])
			return err
		})
	}
	err := g.Wait()
	for i, m := range c.Members {
		if m == nil {
			continue
		}
		t.Cleanup(func() { c.Members[i].Close() })
		c.Endpoints = append(c.Endpoints, m.Endpoints()[0])
		c.configs[i].ListenClient = m.Endpoints()[0]
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Leader is the number of the member that leads now, -1 where none does.
func (c *Cluster) Leader(t testing.TB) int {
	t.Helper()
	for i, m := range c.Members {
		select {
		case <-m.Done():
			continue
		default:
		}
		cli := m.Client()
		st, err := cli.Status(Context(t), c.Endpoints[i])
		_ = cli.Close()
		if err == nil && st.Leader == st.Header.MemberId && st.Leader != 0 {
			return i
		}
	}
	return -1
}

// Restart starts a member again that was closed.
func (c *Cluster) Restart(t testing.TB, i int) {
	t.Helper()
	m, err := embed.Start(context.WithoutCancel(Context(t)), c.configs[i])
	if err != nil {
		t.Fatal(err)
	}
	c.Members[i] = m
}
