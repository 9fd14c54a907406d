package harness

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
)

// member is a coordinator whose embedded etcd is one of several.
type member struct{ name, client, peer string }

// startMembers starts the coordinators c1, c2, … whose embedded servers form one etcd, and waits for all of them.
func (f *Fleet) startMembers() {
	f.t.Helper()
	for i := range f.opt.Members {
		f.members = append(f.members, member{fmt.Sprintf("c%d", i+1), f.freePort(), f.freePort()})
	}
	for _, ln := range f.taken {
		_ = ln.Close()
	}
	var clients []string
	for _, m := range f.members {
		clients = append(clients, m.client)
		f.StartMember(m.name)
	}
	for _, m := range f.members {
		f.AwaitReady(m.name)
	}
	f.Etcd = strings.Join(clients, ",")
}

// StartMember starts one of them (again) without waiting for it.
func (f *Fleet) StartMember(name string, more ...string) {
	f.t.Helper()
	scheme := "http"
	if f.opt.TLS != nil {
		scheme = "https"
	}
	var list []string
	var me member
	for _, m := range f.members {
		list = append(list, fmt.Sprintf("%s=%s://%s", m.name, scheme, m.peer))
		if m.name == name {
			me = m
		}
	}
	args := []string{"serve", "coordinator", "--name", name, "--data-dir", filepath.Join(f.Dir, name), "--ops-listen", "127.0.0.1:0",
		"--checkpoint-dir", filepath.Join(f.Dir, "checkpoints"), "--etcd-listen", me.client, "--etcd-peer-listen", me.peer,
		"--etcd-initial-cluster", strings.Join(list, ",")}
	f.start(name, append(append(args, f.opt.Coordinator...), more...))
}

// Endpoint is the client address of one member.
func (f *Fleet) Endpoint(name string) string {
	for _, m := range f.members {
		if m.name == name {
			return m.client
		}
	}
	f.t.Fatalf("there is no member %s", name)
	return ""
}

// freePort finds a port that is free now; a member must know its own before it starts.
func (f *Fleet) freePort() string {
	f.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	f.taken = append(f.taken, ln) // so that none is found twice
	return ln.Addr().String()
}
