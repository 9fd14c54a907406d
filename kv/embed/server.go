package embed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"

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

// ErrFailed says that etcd gave up: a full disk, a damaged file. It names the directory.
var ErrFailed = errors.New("etcd failed")

// Server is a running etcd member. Owned by whoever called Start.
type Server struct {
	etcd  *embed.Etcd
	dir   string
	lock  *os.File
	eps   []string
	close sync.Once
	watch sync.WaitGroup

	closing context.Context // ends when Close begins
	leave   context.CancelFunc

	mu    sync.Mutex
	cause error         // why etcd gave up
	gone  chan struct{} // closed with cause
	done  chan struct{} // closed when it serves no more
}

// Start runs a member and returns when it can serve. It holds the data directory until Close.
//
// Errors: ErrLocked, ErrPortInUse, ErrFailed (damaged or full directory), each named with the
// remedy, or ctx's error when a cluster found no quorum in time. After an error nothing is left
// running, but after ErrFailed, where only the end of the process frees the directory for certain.
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
	s := &Server{dir: c.DataDir, lock: lock, gone: make(chan struct{}), done: make(chan struct{})}
	s.closing, s.leave = context.WithCancel(context.Background())
	if err := s.start(c); err != nil {
		s.leave()
		_ = lock.Close()
		return nil, err
	}
	members := len(s.etcd.Server.Cluster().Members())
	for _, l := range s.etcd.Clients {
		s.eps = append(s.eps, l.Addr().String())
	}
	s.watch.Go(func() {
		defer close(s.done)
		select {
		case <-s.etcd.Server.StopNotify():
		case <-s.gone:
		}
	})
	err = s.belongs(c, members)
	if err == nil {
		err = s.ready(ctx, c)
	}
	if err != nil {
		if s.Err() == nil {
			s.etcd.Server.HardStop() // no leadership to hand over
		}
		s.Close()
		if s.Err() != nil {
			return nil, s.Err()
		}
		return nil, fmt.Errorf("embed: etcd in %s: %w", c.DataDir, err)
	}
	s.watch.Go(func() { s.maintain(c) })
	return s, nil
}

// start runs etcd's own start in a goroutine, because etcd meets a damaged file with a fatal log
// line, and that ends the goroutine it comes from.
func (s *Server) start(c Config) error {
	started := make(chan error, 1)
	go func() { // owner: the receive below; it outlives it only after ErrFailed
		defer func() {
			if p := recover(); p != nil { // etcd runs on after some damage, into a nil
				s.fail(fmt.Errorf("panic while it read the directory: %v", p))
			}
		}()
		e, err := embed.StartEtcd(s.etcdConfig(c))
		s.etcd = e
		started <- err
	}()
	select {
	case err := <-started:
		if err != nil {
			return startError(c, err)
		}
		return nil
	case <-s.gone:
		return s.Err()
	}
}

// fail is called by etcd's logger in place of the end of the process.
func (s *Server) fail(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cause != nil {
		return
	}
	s.cause = fmt.Errorf("embed: %w in %s: %w; free space on the disk, or restore the directory from a backup, and start again", ErrFailed, s.dir, cause)
	close(s.gone)
}

// Err is why etcd gave up by itself (ErrFailed); nil while it runs and after a Close.
func (s *Server) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause
}

func (s *Server) etcdConfig(c Config) *embed.Config {
	ec := embed.NewConfig()
	ec.Name, ec.Dir = c.Name, c.DataDir
	ec.Logger = "zap"
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zapslog.WithFatal(zapslog.New(c.Logger), s.fail))
	ec.SnapshotCount, ec.SnapshotCatchUpEntries = snapshotCount, catchUp
	ec.QuotaBackendBytes = c.QuotaBytes
	ec.AutoCompactionMode, ec.AutoCompactionRetention = embed.CompactorModePeriodic, c.CompactionRetention.String()
	ec.WatchProgressNotifyInterval = 5 * time.Second
	ec.UnsafeNoFsync = c.NoFsync
	ec.ListenMetricsUrls, ec.ListenClientHttpUrls = nil, nil
	ec.EnableGRPCGateway = false
	ec.GRPCAdditionalServerOptions = []grpc.ServerOption{grpc.ChainStreamInterceptor(s.stream)}
	if c.single() || c.ShortTicks {
		ec.TickMs, ec.ElectionMs = 10, 100
	}
	ec.ListenClientUrls, ec.AdvertiseClientUrls = nil, nil
	if c.ListenClient != "" {
		ec.ListenClientUrls = []url.URL{c.ClientTLS.url(c.ListenClient)}
		ec.AdvertiseClientUrls = ec.ListenClientUrls
		if c.AdvertiseClient != "" {
			ec.AdvertiseClientUrls = []url.URL{c.ClientTLS.url(c.AdvertiseClient)}
		}
		ec.ClientTLSInfo = c.ClientTLS.info()
	}
	if c.single() {
		// No peers, so no peer port; the address below is only the member's name in its own log.
		peer := url.URL{Scheme: "http", Host: "127.0.0.1:2380"}
		ec.ListenPeerUrls, ec.AdvertisePeerUrls = nil, []url.URL{peer}
		ec.InitialCluster = c.Name + "=" + peer.String()
		ec.InitialClusterToken = rand.Text()
		return ec
	}
	ec.ListenPeerUrls, ec.PeerTLSInfo = []url.URL{c.PeerTLS.url(c.ListenPeer)}, c.PeerTLS.info()
	members, _ := c.members() // Validate has seen it
	// What others dial is not always what we listen on.
	ec.AdvertisePeerUrls = []url.URL{c.PeerTLS.url(members[c.Name])}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		at := c.PeerTLS.url(members[name])
		list = append(list, name+"="+at.String())
	}
	ec.InitialCluster = strings.Join(list, ",")
	if c.Existing {
		ec.ClusterState = embed.ClusterStateFlagExisting
	}
	ec.InitialClusterToken = c.ClusterToken
	if ec.InitialClusterToken == "" {
		ec.InitialClusterToken = "strait"
	}
	return ec
}

// stream ends a client's watch or keep-alive stream when Close begins.
func (s *Server) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	return handle(srv, boundStream{ss, ctx})
}

type boundStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (b boundStream) Context() context.Context { return b.ctx }

// ready waits until the member serves. The only member of a cluster does not wait for its election
// timeout: it tells itself to campaign, as a leader that hands over would.
func (s *Server) ready(ctx context.Context, c Config) error {
	srv, single := s.etcd.Server, c.single()
	looks := make(chan error, 1)
	if !single {
		look, stop := context.WithCancel(ctx)
		var looking sync.WaitGroup
		defer looking.Wait()
		defer stop()
		looking.Go(func() { looks <- s.lookAtPeers(look, c) })
	}
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
		case err := <-looks:
			if err != nil {
				return err
			}
		case <-s.gone:
			return s.Err()
		case <-srv.StopNotify():
			return errors.New("stopped while it started; its log has the reason")
		case err := <-s.etcd.Err():
			return err
		case <-ctx.Done():
			if single {
				return fmt.Errorf("not ready: %w; if this happens again the directory is damaged: restore it from a backup", ctx.Err())
			}
			return fmt.Errorf("no quorum: %w; start the other members of the cluster", ctx.Err())
		case <-tick.C:
		}
	}
}

// portInUse is ErrPortInUse with its cause, which says no more in words.
type portInUse struct{ cause error }

// Error implements error.
func (portInUse) Error() string { return ErrPortInUse.Error() }

// Unwrap gives ErrPortInUse and the cause.
func (p portInUse) Unwrap() []error { return []error{ErrPortInUse, p.cause} }

func startError(c Config, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		addr := c.ListenClient
		if c.ListenPeer != "" {
			addr += " or " + c.ListenPeer
		}
		return fmt.Errorf("embed: etcd %w: %s; stop the process that listens there or name another port (port 0 picks a free one)", portInUse{err}, addr)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Errorf("embed: etcd cannot listen on %s: %w", c.ListenClient, err)
	}
	return fmt.Errorf("embed: etcd in %s: %w%s", c.DataDir, err, clusterRemedy(err))
}

// Endpoints returns the client addresses, "host:port", with the real port; empty without ListenClient.
func (s *Server) Endpoints() []string { return s.eps }

// Client returns a client of this process that uses no socket. The caller closes it (kv.Store.Close
// does) before Close.
func (s *Server) Client() *clientv3.Client { return v3client.New(s.etcd.Server) }

// Done is closed when the server serves no more: closed, or failed by itself, see Err. The owner
// watches it: a process whose etcd failed ends, because nothing else frees the directory.
func (s *Server) Done() <-chan struct{} { return s.done }

// Close stops the server and gives the directory free. Idempotent. Mirrors, sessions and stores of
// this process are closed first by their owners. A server that failed is only let go of.
func (s *Server) Close() {
	s.close.Do(func() {
		if s.Err() == nil {
			s.leave() // ends the watches of clients elsewhere, which etcd would wait for, 5 s
			s.etcd.Close()
		}
		s.leave()
		s.watch.Wait()
		_ = s.lock.Close()
	})
}
