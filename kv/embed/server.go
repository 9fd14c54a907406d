package embed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"

	"strait/kv/internal/zapslog"
)

// ErrPortInUse says that a listen address is taken.
var ErrPortInUse = errors.New("address is in use")

// segmentOnce guards etcd's package variable: 64 MB are preallocated per WAL segment otherwise.
var segmentOnce sync.Once

const (
	segmentBytes  = 4 << 20
	snapshotCount = 2000 // raft entries between snapshots
	catchUp       = 500  // raft entries kept behind a snapshot
)

// Server is a running etcd member. Owned by whoever called Start.
type Server struct {
	etcd *embed.Etcd
	lock *os.File
	eps  []string
	once sync.Once
}

// Start runs a member and returns when it can serve. It holds the data directory until Close.
//
// Errors: ErrLocked, ErrPortInUse (both named with the remedy), a fault of the directory, or ctx's
// error when a cluster found no quorum in time. After an error nothing is left running.
func Start(ctx context.Context, c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	if c.StartTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.StartTimeout)
		defer cancel()
	}
	lock, err := lockDir(c.DataDir)
	if err != nil {
		return nil, err
	}
	segmentOnce.Do(func() { wal.SegmentSizeBytes = segmentBytes })
	e, err := embed.StartEtcd(etcdConfig(c))
	if err != nil {
		_ = lock.Close()
		return nil, startError(c, err)
	}
	s := &Server{etcd: e, lock: lock}
	for _, l := range e.Clients {
		s.eps = append(s.eps, l.Addr().String())
	}
	if err := s.ready(ctx, c.single()); err != nil {
		// etcd's Close waits for handlers that wait for readiness: stop the member first.
		e.Server.HardStop()
		s.Close()
		return nil, fmt.Errorf("embed: etcd in %s: %w", c.DataDir, err)
	}
	return s, nil
}

func etcdConfig(c Config) *embed.Config {
	ec := embed.NewConfig()
	ec.Name, ec.Dir = c.Name, c.DataDir
	ec.Logger = "zap"
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapslog.New(c.Logger))
	ec.SnapshotCount, ec.SnapshotCatchUpEntries = snapshotCount, catchUp
	ec.QuotaBackendBytes = c.QuotaBytes
	ec.AutoCompactionMode, ec.AutoCompactionRetention = embed.CompactorModePeriodic, c.CompactionRetention.String()
	ec.WatchProgressNotifyInterval = 5 * time.Second
	ec.UnsafeNoFsync = c.NoFsync
	ec.ListenMetricsUrls, ec.ListenClientHttpUrls = nil, nil
	ec.EnableGRPCGateway = false
	if c.single() || c.ShortTicks {
		ec.TickMs, ec.ElectionMs = 10, 100
	}
	ec.ListenClientUrls, ec.AdvertiseClientUrls = nil, nil
	if c.ListenClient != "" {
		ec.ListenClientUrls = []url.URL{httpURL(c.ListenClient)}
		ec.AdvertiseClientUrls = []url.URL{httpURL(c.ListenClient)}
	}
	if c.single() {
		// No peers, so no peer port; the address below is only the member's name in its own log.
		peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
		ec.ListenPeerUrls, ec.AdvertisePeerUrls = nil, []url.URL{peer}
		ec.InitialCluster = c.Name + "=" + peer.String()
		ec.InitialClusterToken = rand.Text()
		return ec
	}
	ec.ListenPeerUrls, ec.AdvertisePeerUrls = []url.URL{httpURL(c.ListenPeer)}, []url.URL{httpURL(c.ListenPeer)}
	members := strings.Split(c.InitialCluster, ",")
	for i, m := range members {
		name, addr, _ := strings.Cut(m, "=")
		members[i] = name + "=http://" + addr
		if name == c.Name { // what others dial, which is not always what we listen on
			ec.AdvertisePeerUrls = []url.URL{httpURL(addr)}
		}
	}
	ec.InitialCluster = strings.Join(members, ",")
	ec.InitialClusterToken = c.ClusterToken
	if ec.InitialClusterToken == "" {
		ec.InitialClusterToken = "strait"
	}
	return ec
}

// ready waits until the member serves. The only member of a cluster does not wait for its election
// timeout: it tells itself to campaign, as a leader that hands over would.
func (s *Server) ready(ctx context.Context, single bool) error {
	srv := s.etcd.Server
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if single && srv.Leader() == 0 {
			id := uint64(srv.MemberID())
			_ = srv.Process(ctx, &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), To: &id, From: &id})
		}
		select {
		case <-srv.ReadyNotify():
			return nil
		case <-srv.StopNotify():
			return errors.New("stopped while it started; its log has the reason")
		case err := <-s.etcd.Err():
			return err
		case <-ctx.Done():
			if single {
				return fmt.Errorf("not ready: %w", ctx.Err())
			}
			return fmt.Errorf("no quorum: %w; start the other members of the cluster", ctx.Err())
		case <-tick.C:
		}
	}
}

func startError(c Config, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		addr := c.ListenClient
		if c.ListenPeer != "" {
			addr += " or " + c.ListenPeer
		}
		return fmt.Errorf("embed: etcd %w: %s; stop the process that listens there or name another port (port 0 picks a free one): %w", ErrPortInUse, addr, err)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Errorf("embed: etcd cannot listen on %s: %w", c.ListenClient, err)
	}
	return fmt.Errorf("embed: etcd in %s: %w", c.DataDir, err)
}

// Endpoints returns the client addresses, "host:port", with the real port; empty without ListenClient.
func (s *Server) Endpoints() []string { return s.eps }

// Client returns a client of this process that uses no socket. The caller closes it (kv.Store.Close
// does) before Close.
func (s *Server) Client() *clientv3.Client { return v3client.New(s.etcd.Server) }

// Done is closed when the server stopped, also by itself (full disk, damaged file).
func (s *Server) Done() <-chan struct{} { return s.etcd.Server.StopNotify() }

// Close stops the server and gives the directory free. Idempotent. Mirrors, sessions and stores of
// this process are closed first by their owners.
func (s *Server) Close() {
	s.once.Do(func() {
		s.etcd.Close()
		_ = s.lock.Close()
	})
}
