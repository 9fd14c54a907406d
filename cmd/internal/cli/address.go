package cli

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
)

// hostPort refuses what is not HOST:PORT, naming the flag.
func hostPort(flag, value string) error {
	_, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return failf("%s %s: write HOST:PORT, for example 127.0.0.1:0 for any free port of this host", flag, value)
	}
	return nil
}

// listenError says which flag names another address where one cannot be taken; other errors stay as they are.
func listenError(flag, addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return failf("%s %s is in use by another process; choose another port, or 0 for any free one", flag, addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return failf("%s %s is not an address of this host; choose one of its own, or 0.0.0.0 for all of them", flag, addr)
	case errors.Is(err, syscall.EACCES):
		return failf("%s %s: this user may not listen on that port; choose one from 1024 on", flag, addr)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return failf("%s %s: there is no host %s", flag, addr, dns.Name)
	}
	return err
}

// elsewhere stands for a host beyond the default route; nothing is sent to it.
const elsewhere = "192.0.2.1:9"

// reach is the address of this host as others of the fleet see it: the one that connections to etcd leave from.
// Where etcd listens on every address of this host it is that of the default route.
func reach(etcd string) string {
	if u, err := url.Parse(etcd); err == nil && u.Host != "" {
		etcd = u.Host
	}
	if everyAddress(etcd) {
		etcd = elsewhere
	}
	conn, err := net.Dial("udp", etcd) // sends nothing
	if err != nil {
		return loopback
	}
	defer conn.Close()
	at, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil || at.Addr().IsLoopback() {
		return loopback
	}
	return at.Addr().WithZone("").Unmap().String()
}

// everyAddress says whether addr names no host: 0.0.0.0:2379, [::]:2379, :2379.
func everyAddress(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "" || err == nil && ip.IsUnspecified()
}

// told is a bound address as others can dial it.
func told(bound, host string) string {
	if _, port, err := net.SplitHostPort(bound); err == nil && everyAddress(bound) {
		return net.JoinHostPort(host, port)
	}
	return bound
}
