package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"strait/cmd/internal/settings"
	"strait/kv"
	"strait/kv/embed"
	"strait/kv/keys"
)

// endpoints returns etcd.endpoints; the default is the address `serve coordinator` listens on when not told
// otherwise.
func endpoints(set *settings.Values) []string {
	if !set.Has("etcd.endpoints") {
		return []string{settings.DefaultEtcd}
	}
	return set.List("etcd.endpoints")
}

// checkEndpoints refuses what etcd's client would only call unreachable.
func checkEndpoints(set *settings.Values) error {
	all, name := endpoints(set), set.Name("etcd.endpoints")
	if len(all) == 0 {
		return failf("%s names none; write HOST:PORT, several with commas between them", name)
	}
	for _, e := range all {
		u, err := url.Parse(e)
		if err == nil && u.Host != "" {
			e = u.Host
		}
		if _, _, err := net.SplitHostPort(e); err != nil {
			return failf("%s %s: write HOST:PORT, several with commas between them", name, strings.Join(all, ","))
		}
	}
	return nil
}

const loopback = "127.0.0.1"

func tree(set *settings.Values) keys.Tree { return keys.New(set.String("etcd.prefix")) }

// openStore connects to the fleet's etcd.
func openStore(ctx context.Context, set *settings.Values) (*kv.Store, error) {
	if err := checkEndpoints(set); err != nil {
		return nil, err
	}
	store, err := kv.Open(ctx, kv.Config{Endpoints: endpoints(set)})
	if errors.Is(err, kv.ErrUnreachable) {
		return nil, fmt.Errorf("%w with --etcd-endpoints; is no coordinator running? `stctl serve coordinator --data-dir DIR` starts one with its etcd", err)
	}
	return store, err
}

// embedded is an etcd in this process with a client that needs no socket.
type embedded struct {
	server *embed.Server
	store  *kv.Store
	dir    string
	remove bool // dir is a temporary one
}

// startEmbedded starts etcd below dataDir, or in a temporary folder that goes with the process when dataDir is
// empty; such a store does not sync to disk, nobody reads it afterwards. listen is its client port, "" for
// none.
func startEmbedded(ctx context.Context, dataDir, listen string) (*embedded, error) {
	e := &embedded{dir: dataDir}
	if dataDir == "" {
		dir, err := os.MkdirTemp("", "strait-run-")
		if err != nil {
			return nil, fmt.Errorf("make a temporary folder for the embedded etcd: %w; set TMPDIR to a folder that can be written", err)
		}
		e.dir, e.remove = dir, true
	}
	server, err := embed.Start(ctx, embed.Config{DataDir: filepath.Join(e.dir, "etcd"), ListenClient: listen, NoFsync: e.remove})
	if err != nil {
		e.close()
		var told *outcome
		if errors.As(listenError("--etcd-listen", listen, err), &told) {
			return nil, told
		}
		if e.remove {
			return nil, err
		}
		return nil, fmt.Errorf("--data-dir %s: %s", dataDir, strings.TrimPrefix(err.Error(), "embed: "))
	}
	e.server = server
	if e.store, err = kv.Open(ctx, kv.Config{Client: server.Client()}); err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

// close ends client and server, in that order; everything that uses the store has ended before.
func (e *embedded) close() {
	if e.store != nil {
		_ = e.store.Close()
	}
	if e.server != nil {
		e.server.Close()
	}
	if e.remove {
		_ = os.RemoveAll(e.dir)
	}
}
