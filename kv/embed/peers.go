package embed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
)

// ErrForeign says that so many members belong to another cluster than this one that it never finds a quorum.
var ErrForeign = errors.New("belong to another cluster")

const (
	lookEvery = 2 * time.Second
	lookLimit = time.Second // one member

	sameBeginning = "members begin with one list of names and addresses, with one cluster name, and none of them in the directory of another cluster"
)

// belongs refuses a data directory that holds something else than the configuration says: etcd would come up, but
// as the member of the cluster that the directory knows.
func (s *Server) belongs(c Config, members int) error {
	switch {
	case c.single() && members > 1:
		return fmt.Errorf("the directory holds a member of a cluster of %d; name its members as before, or another directory", members)
	case !c.single() && members == 1 && !c.Existing && strings.Contains(c.InitialCluster, ","):
		return errors.New("the directory holds an etcd of one member; a cluster begins in empty directories: add members to the one with etcdctl member add, or name another directory")
	}
	return nil
}

// lookAtPeers looks at the other members until ctx ends, and tells c.Notice. It ends with ErrForeign when those that
// answer for another cluster leave no quorum: waiting does not help then. A single one may be the one that is wrong.
// etcd itself says so only in its log.
func (s *Server) lookAtPeers(ctx context.Context, c Config) error {
	members, err := c.members()
	if err != nil {
		return err
	}
	rt, err := transport.NewTransport(c.PeerTLS.info(), lookLimit)
	if err != nil {
		return err
	}
	defer rt.CloseIdleConnections()
	cl := &http.Client{Transport: rt, Timeout: lookLimit}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		var said, foreign []string
		for name, addr := range members {
			if name == c.Name {
				continue
			}
			at := c.PeerTLS.url(addr)
			at.Path = "/members"
			cluster, err := clusterOf(ctx, cl, at.String())
			mine := s.etcd.Server.Cluster().ID().String()
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				said = append(said, fmt.Sprintf("%s (%s): %v", name, addr, err))
			case cluster != "" && cluster != mine:
				foreign = append(foreign, fmt.Sprintf("%s (%s)", name, addr))
				said = append(said, fmt.Sprintf("%s (%s): belongs to another cluster; %s", name, addr, sameBeginning))
			default:
				said = append(said, fmt.Sprintf("%s (%s): is there", name, addr))
			}
		}
		slices.Sort(said)
		slices.Sort(foreign)
		if len(members)-len(foreign) <= len(members)/2 {
			return fmt.Errorf("%s: %w; %s", strings.Join(foreign, ", "), ErrForeign, sameBeginning)
		}
		c.Notice("waits for the other members: " + strings.Join(said, "; "))
	}
}

// clusterOf asks a member's peer port which cluster it is of; empty where it does not say.
func clusterOf(ctx context.Context, cl *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := cl.Do(req)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			return "", op
		}
		return "", errors.Unwrap(err) // without the URL, which is said already
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return resp.Header.Get("X-Etcd-Cluster-ID"), nil
}

// clusterRemedy says what to do about what etcd finds wrong with a cluster.
func clusterRemedy(err error) string {
	text := err.Error()
	switch {
	case strings.Contains(text, "already been bootstrapped"):
		return "; its data are gone while the cluster still counts on it: take it out and add it again (etcdctl member remove, member add), then start it as a member of an existing cluster"
	case strings.Contains(text, "validating peerURLs"), strings.Contains(text, "member count is unequal"):
		return "; the list of members differs from the one that the running members have"
	}
	return ""
}
