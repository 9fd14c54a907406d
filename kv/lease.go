package kv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Grant asks for a lease of about ttl (whole seconds, rounded up). The store may grant more. An
// error may leave a lease behind that ends by itself. Called by kv/session.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (Lease, error) {
	cctx, _, done, err := s.begin(ctx)
	if err != nil {
		return Lease{}, err
	}
	defer done()
	resp, err := s.cli.Grant(cctx, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return Lease{}, callError("grant lease", "", s.because(ctx, err), true)
	}
	if err := s.observe(resp.ResponseHeader, -1); err != nil {
		return Lease{}, err
	}
	return Lease{ID: int64(resp.ID), TTL: time.Duration(resp.TTL) * time.Second}, nil
}

// Renew sends one keep-alive and returns the TTL granted anew. ErrLeaseNotFound: the lease is gone.
// Any other error says nothing about the lease. Called by kv/session.
func (s *Store) Renew(ctx context.Context, id int64) (time.Duration, error) {
	cctx, _, done, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	name := fmt.Sprintf("%x", id)
	header, ttl, err := s.renew(cctx, id)
	if err != nil {
		return 0, callError("renew lease", name, s.because(ctx, err), false)
	}
	if err := s.observe(header, -1); err != nil {
		return 0, err
	}
	if ttl <= 0 {
		return 0, fmt.Errorf("kv: renew lease %s: %w", name, ErrLeaseNotFound)
	}
	return time.Duration(ttl) * time.Second, nil
}

// renew is etcd's KeepAliveOnce without its loop, which repeats a failed send at once and without end, however dead
// the connection is. It asks on a stream that an earlier renewal has left: a new one costs an authentication, which
// etcd makes slow on purpose, where users are on.
func (s *Store) renew(ctx context.Context, id int64) (*etcdserverpb.ResponseHeader, int64, error) {
	if s.cli.ActiveConnection() == nil { // a client of this process: no connection that could fail
		resp, err := s.cli.KeepAliveOnce(ctx, clientv3.LeaseID(id))
		if err != nil {
			return nil, 0, err
		}
		return resp.ResponseHeader, resp.TTL, nil
	}
	if r := s.renewals.take(); r != nil {
		resp, err := r.ask(ctx, id)
		if err == nil {
			s.renewals.leave(r)
			return resp.Header, resp.TTL, nil
		}
		if ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
		// It broke since, or what it was opened with counts no more (a token that has ended).
	}
	r := &renewal{}
	r.ctx, r.cancel = context.WithCancel(s.ctx)
	stop := context.AfterFunc(ctx, r.cancel)
	stream, err := clientv3.RetryLeaseClient(s.cli).LeaseKeepAlive(r.ctx)
	if !stop() && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		r.cancel()
		return nil, 0, err
	}
	r.stream = stream
	resp, err := r.ask(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	s.renewals.leave(r)
	return resp.Header, resp.TTL, nil
}

// renewal is an open keep-alive stream. Nothing is under way on one that is idle.
type renewal struct {
	stream etcdserverpb.Lease_LeaseKeepAliveClient
	ctx    context.Context // of the stream, ends with the store
	cancel context.CancelFunc
}

// ask renews a lease. After an error the stream is over.
func (r *renewal) ask(ctx context.Context, id int64) (*etcdserverpb.LeaseKeepAliveResponse, error) {
	stop := context.AfterFunc(ctx, r.cancel)
	_ = r.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: id}) // Recv has the reason where it fails
	resp, err := r.stream.Recv()
	if !stop() && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		r.cancel()
		return nil, err
	}
	return resp, nil
}

// renewals are the idle keep-alive streams of a store: as many as sessions have renewed at once.
type renewals struct {
	mu   sync.Mutex
	idle []*renewal
}

func (p *renewals) take() *renewal {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	r := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return r
}

func (p *renewals) leave(r *renewal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, r)
}

// Revoke ends a lease and deletes its keys now. A lease already gone is no error. Called by
// kv/session and by whoever fences a worker.
func (s *Store) Revoke(ctx context.Context, id int64) error {
	cctx, _, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	resp, err := s.cli.Revoke(cctx, clientv3.LeaseID(id))
	if err == nil {
		return s.observe(resp.Header, -1)
	}
	err = callError("revoke lease", fmt.Sprintf("%x", id), s.because(ctx, err), true)
	if errors.Is(err, ErrLeaseNotFound) {
		return nil
	}
	return err
}
