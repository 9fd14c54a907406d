package kv

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What callers branch on, with errors.Is.
var (
	// ErrDeposed: the leadership a transaction was made under is over. Nothing was written. Stop
	// leading; do not retry.
	ErrDeposed = errors.New("deposed: the leadership this write was made under is over")
	// ErrConflict: another guard failed, see *Conflict. Nothing was written. Read again, decide anew.
	ErrConflict = errors.New("conflict")
	// ErrUnknownOutcome: the store did not answer a write; it may have happened, or may still.
	// Read, then decide.
	ErrUnknownOutcome = errors.New("outcome unknown")
	// ErrRefused: the store or this package refused the call. Nothing was written; the same call
	// will be refused again.
	ErrRefused = errors.New("refused")
	// ErrAuth: the store does not know the user, the password is wrong, or the user may not touch these keys.
	// It is an ErrRefused too.
	ErrAuth = errors.New("not permitted")
	// ErrNoSpace: etcd's database reached its quota and takes no writes and no new leases. Nothing was written. It
	// passes when somebody makes space; leases are renewed meanwhile.
	ErrNoSpace = errors.New("etcd is full")
	// ErrLeaseNotFound: the lease is gone for good.
	ErrLeaseNotFound = errors.New("lease not found")
	// ErrCompacted: the revision asked for is no longer kept. List again.
	ErrCompacted = errors.New("revision compacted")
	// ErrWentBack: the store is not the one this process knew. Stop the process.
	ErrWentBack = errors.New("the store went back")
	// ErrUnreachable: no endpoint answered Open in time.
	ErrUnreachable = errors.New("etcd unreachable")
)

// Conflict is a guard that did not hold, with the key as it is now (ModRev 0: absent), read in the
// same transaction.
type Conflict struct {
	Guard   Guard
	Current Entry
}

// Error implements error.
func (c *Conflict) Error() string {
	if !c.Current.Exists() {
		return fmt.Sprintf("kv: conflict: wanted %s, but the key is absent", c.Guard)
	}
	return fmt.Sprintf("kv: conflict: wanted %s, found create revision %d, mod revision %d", c.Guard, c.Current.CreateRev, c.Current.ModRev)
}

// Is makes errors.Is(err, ErrConflict) true.
func (c *Conflict) Is(target error) bool { return target == ErrConflict }

// Deposed is the leadership guard that did not hold. errors.Is(err, ErrDeposed) is true.
type Deposed struct {
	Guard   Guard
	Current Entry // ModRev 0: nobody leads through that key
}

// Error implements error.
func (d *Deposed) Error() string {
	return fmt.Sprintf("kv: %v: %s no longer has create revision %d", ErrDeposed, d.Guard.Key, d.Guard.Rev)
}

// Is makes errors.Is(err, ErrDeposed) true.
func (d *Deposed) Is(target error) bool { return target == ErrDeposed }

// Limit is a transaction that would be, or was, too large or malformed. Nothing was written.
type Limit struct {
	Key  string // the key at fault; empty when the whole transaction is
	What string
}

// Error implements error.
func (l *Limit) Error() string {
	if l.Key == "" {
		return "kv: " + l.What
	}
	return fmt.Sprintf("kv: key %s: %s", l.Key, l.What)
}

// Is makes errors.Is(err, ErrRefused) true.
func (l *Limit) Is(target error) bool { return target == ErrRefused }

// WentBack says how the store differs from the one this process knew.
type WentBack struct {
	Cluster, Known uint64 // cluster ids, now and before; equal: the revision went back
	Rev, KnownRev  int64  // revisions, now and before
}

// Error implements error.
func (w *WentBack) Error() string {
	const remedy = "; etcd was replaced or restored from an older backup. Restart this process once the store is the right one"
	if w.Cluster != w.Known {
		return fmt.Sprintf("kv: %v: cluster id was %x and is now %x%s", ErrWentBack, w.Known, w.Cluster, remedy)
	}
	return fmt.Sprintf("kv: %v: revision was %d and is now %d%s", ErrWentBack, w.KnownRev, w.Rev, remedy)
}

// Is makes errors.Is(err, ErrWentBack) true.
func (w *WentBack) Is(target error) bool { return target == ErrWentBack }

// callError names what was tried and sorts the store's error. write: the call may have changed
// something, so an error that is no refusal leaves the outcome unknown.
func callError(what, key string, err error, write bool) error {
	name := what
	if key != "" {
		name += " " + key
	}
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, rpctypes.ErrGRPCLeaseNotFound) {
		return fmt.Errorf("kv: %s: %w", name, ErrLeaseNotFound)
	}
	if errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, rpctypes.ErrGRPCCompacted) {
		return fmt.Errorf("kv: %s: %w", name, ErrCompacted)
	}
	if errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(err, rpctypes.ErrGRPCNoSpace) {
		return fmt.Errorf("kv: %s: %w: its database reached its quota; delete what is not needed, then etcdctl compact, defrag and alarm disarm, or raise the quota (etcd.quota of an embedded etcd)", name, ErrNoSpace)
	}
	if unauthorised(err) {
		return fmt.Errorf("kv: %s: %w", name, &authError{err})
	}
	if definite(err) {
		return fmt.Errorf("kv: %s: %w: %w", name, ErrRefused, err)
	}
	if write {
		return fmt.Errorf("kv: %s: %w: %w", name, ErrUnknownOutcome, err)
	}
	return fmt.Errorf("kv: %s: %w", name, err)
}

// authError is a refusal that credentials or rights would lift.
type authError struct{ err error }

// Error implements error.
func (a *authError) Error() string {
	remedy := "check etcd.username and etcd.password or etcd.password-file"
	switch {
	case is(a.err, rpctypes.ErrGRPCUserEmpty):
		remedy = "this etcd wants a user: set etcd.username, and etcd.password or etcd.password-file"
	case is(a.err, rpctypes.ErrGRPCAuthNotEnabled):
		remedy = "this etcd has no users: leave etcd.username and etcd.password away"
	case is(a.err, rpctypes.ErrGRPCPermissionDenied):
		remedy = "the user (etcd.username, else the name in the certificate) needs a role that reads and writes everything below etcd.prefix"
	}
	return fmt.Sprintf("%v: %v; %s", ErrAuth, a.err, remedy)
}

// Unwrap gives ErrAuth, ErrRefused and the cause.
func (a *authError) Unwrap() []error { return []error{ErrAuth, ErrRefused, a.err} }

// authErrors are the answers of etcd's authentication, as they cross the wire.
var authErrors = []error{rpctypes.ErrGRPCUserEmpty, rpctypes.ErrGRPCAuthFailed, rpctypes.ErrGRPCPermissionDenied,
	rpctypes.ErrGRPCInvalidAuthToken, rpctypes.ErrGRPCAuthNotEnabled, rpctypes.ErrGRPCInvalidAuthMgmt, rpctypes.ErrGRPCAuthOldRevision}

func unauthorised(err error) bool {
	return slices.ContainsFunc(authErrors, func(known error) bool { return is(err, known) })
}

// is compares an error of the store with one of rpctypes, by the text that crosses the wire.
func is(err, known error) bool {
	want := rpctypes.ErrorDesc(known)
	var ee rpctypes.EtcdError
	if errors.As(err, &ee) {
		return ee.Error() == want
	}
	st, ok := status.FromError(err)
	return ok && st.Message() == want
}

// definite tells an answer of the store (it looked at the call and said no) from a missing one.
func definite(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	var code codes.Code
	var ee rpctypes.EtcdError
	if errors.As(err, &ee) {
		code = ee.Code()
	} else if st, ok := status.FromError(err); ok {
		code = st.Code()
	}
	switch code {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.NotFound,
		codes.ResourceExhausted, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return true
	}
	return false
}
