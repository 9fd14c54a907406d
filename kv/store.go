package kv

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"strait/kv/internal/zapslog"
)

// Defaults of Config.
const (
	DefaultDialTimeout = 5 * time.Second
	// ClusterDialTimeout is the default for several endpoints: one of them may be electing its leader.
	ClusterDialTimeout = 15 * time.Second
	openTry            = 3 * time.Second // a request that met no leader is forgotten, and asked anew
	DefaultCallTimeout = 5 * time.Second

	// A page of List has as many keys as come to pageBytes if they are like those of the page before, within bounds.
	firstPage = 512
	leastPage = 64
	mostPage  = 8192
	pageBytes = 1 << 20
)

// Config says which etcd, and how long to wait for it.
type Config struct {
	Endpoints []string    // "host:port" or a URL; not used with Client
	TLS       *tls.Config // nil: plain. ServerName counts for all endpoints; empty: the host of each
	Username  string
	Password  string
	// Probe is a key that Open reads to see whether this user may; empty: Open sees only whether etcd answers.
	Probe string
	// DialTimeout bounds Open; 0 means DefaultDialTimeout, ClusterDialTimeout for several endpoints.
	DialTimeout time.Duration
	// CallTimeout bounds each call, a shorter deadline of the context counts; 0 means
	// DefaultCallTimeout.
	CallTimeout time.Duration
	// Logger receives the client's warnings and errors; nil is silence.
	Logger *slog.Logger
	// Client is adopted instead of dialling, as from embed.Server.Client. Store.Close closes it.
	Client *clientv3.Client
}

// Store is the connection to etcd. Safe for concurrent use. One a process.
type Store struct {
	cli     *clientv3.Client
	adopted bool
	timeout time.Duration
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	renewals renewals
	stream   atomic.Int64 // number of the stream that new watches share

	mu      sync.Mutex
	cluster uint64
	rev     int64
	back    *WentBack // sticky
}

// Open connects and proves with a read that the store answers. Errors: ErrUnreachable naming the
// endpoints, ErrAuth (password, rights).
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.DialTimeout <= 0 {
		c.DialTimeout = DefaultDialTimeout
		if len(c.Endpoints) > 1 {
			c.DialTimeout = ClusterDialTimeout
		}
	}
	if c.CallTimeout <= 0 {
		c.CallTimeout = DefaultCallTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, c.DialTimeout)
	defer cancel()
	s := &Store{cli: c.Client, adopted: c.Client != nil, timeout: c.CallTimeout}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if !s.adopted {
		if len(c.Endpoints) == 0 {
			return nil, errors.New("kv: no etcd endpoint given; name at least one as host:port")
		}
		var err error
		if s.cli, err = dial(c); err != nil {
			return nil, openError(c, err)
		}
	}
	for {
		try, cancel := context.WithTimeout(ctx, openTry)
		var err error
		s.cluster, s.rev, err = s.now(try, c.Probe)
		cancel()
		switch {
		case err == nil:
			return s, nil
		case ctx.Err() != nil || definite(err) || unauthorised(err):
			_ = s.Close()
			return nil, openError(c, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// now asks, linearizably, for the cluster's id and its revision. It reads key, or nothing where that is empty: a
// user who may only touch some keys may ask too.
func (s *Store) now(ctx context.Context, key string) (cluster uint64, rev int64, err error) {
	txn := s.cli.Txn(ctx)
	if key != "" {
		txn = txn.Then(clientv3.OpGet(key, clientv3.WithCountOnly()))
	}
	resp, err := txn.Commit()
	if err != nil {
		return 0, 0, err
	}
	return resp.Header.ClusterId, resp.Header.Revision, nil
}

func dial(c Config) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints:   c.Endpoints,
		TLS:         verifying(c.TLS),
		Username:    c.Username,
		Password:    c.Password,
		DialTimeout: c.DialTimeout,
		// etcd refuses pings that come more often than every 5 s. A silent peer is noticed after 13 s.
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 3 * time.Second,
		Logger:               zapslog.New(c.Logger),
		DialOptions: []grpc.DialOption{
			// gRPC's own back-off grows to two minutes: after an outage of one minute a lease would
			// be lost although etcd is back.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
				MinConnectTimeout: 3 * time.Second,
			}),
		},
	})
}

// verifying makes ServerName count: gRPC puts the host of each endpoint in its place.
func verifying(c *tls.Config) *tls.Config {
	if c == nil || c.ServerName == "" {
		return c
	}
	name := c.ServerName
	c = c.Clone()
	c.InsecureSkipVerify = true // the standard check, which is made below with the name that was asked for
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		o := x509.VerifyOptions{Roots: c.RootCAs, DNSName: name, Intermediates: x509.NewCertPool()}
		for _, cert := range cs.PeerCertificates[1:] {
			o.Intermediates.AddCert(cert)
		}
		_, err := cs.PeerCertificates[0].Verify(o)
		return err
	}
	return c
}

func openError(c Config, err error) error {
	where := strings.Join(c.Endpoints, ", ")
	if c.Client != nil {
		where = "in this process"
	}
	if unauthorised(err) {
		return fmt.Errorf("kv: etcd at %s: %w", where, &authError{err})
	}
	if definite(err) {
		return fmt.Errorf("kv: etcd at %s: %w: %w", where, ErrRefused, err)
	}
	if c.Client == nil {
		where += probe(c)
	}
	return &unreachable{where, err}
}

// unreachable leaves out what gRPC says, which is only that the time was up.
type unreachable struct {
	where string
	err   error
}

// Error implements error.
func (u *unreachable) Error() string {
	return fmt.Sprintf("%v: no answer from %s; start etcd there or name the right endpoints", ErrUnreachable, u.where)
}

// Unwrap gives ErrUnreachable and the cause.
func (u *unreachable) Unwrap() []error { return []error{ErrUnreachable, u.err} }

// probe finds the words that gRPC swallows: refused, no such host, TLS where none is spoken or the other way round,
// a certificate that one side does not accept.
func probe(c Config) string {
	addr := c.Endpoints[0]
	if u, err := url.Parse(addr); err == nil && u.Host != "" {
		addr = u.Host
	}
	limit := min(time.Second, c.DialTimeout)
	conn, err := net.DialTimeout("tcp", addr, limit)
	if err != nil {
		return fmt.Sprintf(" (%v)", err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit))
	conf := &tls.Config{InsecureSkipVerify: true} // only to learn whether it speaks TLS; nothing is sent
	if c.TLS != nil {
		if conf = c.TLS.Clone(); conf.ServerName == "" {
			conf.ServerName, _, _ = net.SplitHostPort(addr)
		}
	}
	conf.NextProtos = []string{"h2"}
	secure := tls.Client(conn, conf)
	err = secure.Handshake()
	if err == nil && c.TLS != nil { // a server that refuses our certificate says so in place of its first bytes
		_, err = secure.Read(make([]byte, 1))
	}
	var plain tls.RecordHeaderError
	var timeout net.Error
	switch {
	case c.TLS == nil && err == nil:
		return " (it speaks TLS; set etcd.tls.ca, and etcd.tls.cert and etcd.tls.key where it wants to know its clients)"
	case c.TLS == nil || errors.As(err, &timeout) && timeout.Timeout():
		return " (the port is open; is it the one for clients, and does it want TLS?)"
	case errors.As(err, &plain), errors.Is(err, io.EOF):
		return " (it does not speak TLS; leave etcd.tls.ca, etcd.tls.cert and etcd.tls.key away)"
	case err != nil:
		return fmt.Sprintf(" (%v; check etcd.tls.ca, etcd.tls.cert, etcd.tls.key and etcd.tls.server-name)", err)
	}
	return " (the port is open and speaks TLS with this certificate)"
}

// Close ends the client. Calls and watches in flight return with an error. Sessions and mirrors
// are closed before.
func (s *Store) Close() error {
	s.cancel()
	if err := s.cli.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("kv: close: %w", err)
	}
	return nil
}

// ClusterID is etcd's id of the cluster; a store made anew has another.
func (s *Store) ClusterID() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster
}

// begin opens a call: its context with a deadline and the highest revision known before it, which
// a linearizable answer cannot be below.
func (s *Store) begin(ctx context.Context) (context.Context, int64, func(), error) {
	s.mu.Lock()
	mark, back := s.rev, s.back
	s.mu.Unlock()
	if back != nil {
		return nil, 0, nil, back
	}
	cctx, cancel := context.WithTimeout(ctx, s.timeout)
	stop := context.AfterFunc(s.ctx, cancel)
	return cctx, mark, func() { stop(); cancel() }, nil
}

// because explains a deadline that was ours and not the caller's.
func (s *Store) because(ctx context.Context, err error) error {
	switch {
	case s.ctx.Err() != nil:
		return fmt.Errorf("store is closed: %w", err)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return &silent{s.timeout, err}
	}
	return err
}

// silent is a deadline of this package that ran out; the cause says no more than that.
type silent struct {
	within time.Duration
	err    error
}

// Error implements error.
func (s *silent) Error() string { return fmt.Sprintf("etcd did not answer within %v", s.within) }

// Unwrap gives the cause.
func (s *silent) Unwrap() error { return s.err }

// observe checks an answer against what is known of the store. mark < 0: the answer says nothing
// of the revision.
func (s *Store) observe(h *etcdserverpb.ResponseHeader, mark int64) error {
	if h == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.back != nil {
		return s.back
	}
	switch {
	case h.ClusterId != 0 && h.ClusterId != s.cluster:
		s.back = &WentBack{Cluster: h.ClusterId, Known: s.cluster}
	case mark >= 0 && h.Revision < mark:
		s.back = &WentBack{Cluster: s.cluster, Known: s.cluster, Rev: h.Revision, KnownRev: mark}
	default:
		if mark >= 0 {
			s.rev = max(s.rev, h.Revision)
		}
		return nil
	}
	return s.back
}

// Get reads one key, linearizably. An absent key is no error: its Entry has ModRev 0.
func (s *Store) Get(ctx context.Context, key string) (Entry, error) {
	es, _, err := s.Read(ctx, key)
	if err != nil {
		return Entry{}, err
	}
	return es[0], nil
}

// Read reads up to MaxOps keys at one revision, which it returns. Absent keys have ModRev 0.
func (s *Store) Read(ctx context.Context, keys ...string) ([]Entry, int64, error) {
	if len(keys) == 0 || len(keys) > MaxOps {
		return nil, 0, &Limit{What: fmt.Sprintf("read of %d keys at once, 1 to %d are allowed", len(keys), MaxOps)}
	}
	cctx, mark, done, err := s.begin(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer done()
	out := make([]Entry, len(keys))
	if len(keys) == 1 {
		resp, err := s.cli.Get(cctx, keys[0])
		if err != nil {
			return nil, 0, callError("read", keys[0], s.because(ctx, err), false)
		}
		out[0] = Entry{Key: keys[0]}
		if len(resp.Kvs) == 1 {
			out[0] = toEntry(resp.Kvs[0])
		}
		return out, resp.Header.Revision, s.observe(resp.Header, mark)
	}
	ops := make([]clientv3.Op, len(keys))
	for i, k := range keys {
		ops[i] = clientv3.OpGet(k)
	}
	resp, err := s.cli.Txn(cctx).Then(ops...).Commit()
	if err != nil {
		return nil, 0, callError("read", keys[0], s.because(ctx, err), false)
	}
	for i, k := range keys {
		out[i] = Entry{Key: k}
		if kvs := resp.Responses[i].GetResponseRange().Kvs; len(kvs) == 1 {
			out[i] = toEntry(kvs[0])
		}
	}
	return out, resp.Header.Revision, s.observe(resp.Header, mark)
}

// List reads every key that begins with prefix, in key order, as of revision rev; 0 means now. It
// reads in pages that all show one revision, which it returns. ErrCompacted: rev is no longer kept.
func (s *Store) List(ctx context.Context, prefix string, rev int64) ([]Entry, int64, error) {
	if prefix == "" {
		return s.Range(ctx, "\x00", "\x00", rev)
	}
	return s.Range(ctx, prefix, PrefixEnd(prefix), rev)
}

// ListKeys is List without the values.
func (s *Store) ListKeys(ctx context.Context, prefix string, rev int64) ([]Entry, int64, error) {
	return s.ranged(ctx, prefix, PrefixEnd(prefix), rev, clientv3.WithKeysOnly())
}

// RangeKeys is Range without the values.
func (s *Store) RangeKeys(ctx context.Context, from, end string, rev int64) ([]Entry, int64, error) {
	return s.ranged(ctx, from, end, rev, clientv3.WithKeysOnly())
}

// PrefixEnd is the first key behind every key that begins with prefix.
func PrefixEnd(prefix string) string { return clientv3.GetPrefixRangeEnd(prefix) }

// Range is List for the keys in [from, end).
func (s *Store) Range(ctx context.Context, from, end string, rev int64) ([]Entry, int64, error) {
	return s.ranged(ctx, from, end, rev)
}

func (s *Store) ranged(ctx context.Context, from, end string, rev int64, more ...clientv3.OpOption) ([]Entry, int64, error) {
	for {
		es, at, err := s.pages(ctx, from, end, rev, more)
		if rev == 0 && errors.Is(err, ErrCompacted) && ctx.Err() == nil {
			continue // compacted between two pages: begin again, now is later
		}
		return es, at, err
	}
}

func (s *Store) pages(ctx context.Context, from, end string, rev int64, more []clientv3.OpOption) ([]Entry, int64, error) {
	var out []Entry
	limit := int64(firstPage)
	for next := from; ; {
		resp, err := s.page(ctx, next, end, from, rev, limit, more)
		if err != nil {
			return nil, 0, err
		}
		if rev == 0 {
			rev = resp.Header.Revision
		}
		if out == nil {
			out = make([]Entry, 0, resp.Count)
		}
		bytes := 0
		for _, x := range resp.Kvs {
			bytes += len(x.Key) + len(x.Value)
			out = append(out, toEntry(x))
		}
		limit = min(max(int64(len(resp.Kvs))*pageBytes/int64(bytes+1), leastPage), mostPage)
		if !resp.More || len(resp.Kvs) == 0 {
			return out, rev, nil
		}
		next = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

func (s *Store) page(ctx context.Context, from, end, what string, rev, limit int64, more []clientv3.OpOption) (*clientv3.GetResponse, error) {
	cctx, mark, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	resp, err := s.cli.Get(cctx, from, append([]clientv3.OpOption{clientv3.WithRange(end), clientv3.WithRev(rev), clientv3.WithLimit(limit)}, more...)...)
	if err != nil {
		return nil, callError("list", what, s.because(ctx, err), false)
	}
	return resp, s.observe(resp.Header, mark)
}

// Revision asks the store for its revision now. A quiet watcher calls it to notice a store that
// went back.
func (s *Store) Revision(ctx context.Context) (int64, error) {
	cctx, mark, done, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	cluster, rev, err := s.now(cctx, "")
	if err != nil {
		return 0, callError("read revision", "", s.because(ctx, err), false)
	}
	return rev, s.observe(&etcdserverpb.ResponseHeader{ClusterId: cluster, Revision: rev}, mark)
}

// Status is how full and how new the store is.
type Status struct {
	Version    string // etcd's
	Size, Used int64  // bytes of the database file, and of it not free
	Quota      int64  // bytes at which etcd refuses writes; 0: unknown
	Alarms     []string
}

// Status asks one member. Every coordinator calls it every few seconds, for its metrics.
func (s *Store) Status(ctx context.Context) (Status, error) {
	cctx, _, done, err := s.begin(ctx)
	if err != nil {
		return Status{}, err
	}
	defer done()
	endpoint := ""
	if eps := s.cli.Endpoints(); len(eps) > 0 {
		endpoint = eps[0]
	}
	resp, err := s.cli.Status(cctx, endpoint)
	if err != nil {
		return Status{}, callError("status", endpoint, s.because(ctx, err), false)
	}
	return Status{Version: resp.Version, Size: resp.DbSize, Used: resp.DbSizeInUse, Quota: resp.DbSizeQuota, Alarms: resp.Errors},
		s.observe(resp.Header, -1)
}
