package ops

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Notifier tells a supervisor how the process is, by the protocol of systemd's Type=notify (sd_notify): datagrams to
// the socket that NOTIFY_SOCKET names. The zero Notifier has no supervisor and says nothing.
type Notifier struct {
	socket string
	// watchdog is how long the supervisor waits for a sign of life; 0: it does not.
	watchdog time.Duration
	log      *slog.Logger
	failed   bool // told already
}

// statusEvery is how often a change of state is looked for where there is no watchdog.
const statusEvery = 5 * time.Second

// NewNotifier reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. What it cannot tell later goes to log.
func NewNotifier(log *slog.Logger) (*Notifier, error) {
	n := &Notifier{socket: os.Getenv("NOTIFY_SOCKET"), log: log}
	if n.socket == "" {
		return n, nil
	}
	if n.socket[0] != '/' && n.socket[0] != '@' {
		return nil, fmt.Errorf("NOTIFY_SOCKET=%s: only a path or an abstract socket (@…) can be written to; unset it to run without a supervisor", n.socket)
	}
	usec := os.Getenv("WATCHDOG_USEC")
	if pid := os.Getenv("WATCHDOG_PID"); usec == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return n, nil // it watches nobody, or another process
	}
	us, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || us <= 0 || us > int64(365*24*time.Hour/time.Microsecond) {
		return nil, fmt.Errorf("WATCHDOG_USEC=%s: not a number of microseconds; the supervisor sets it (WatchdogSec=)", usec)
	}
	n.watchdog = time.Duration(us) * time.Microsecond
	return n, nil
}

// Run tells READY once await returns without an error, then the state whenever it changes and, to a watchdog, that
// the process is alive each time that alive says so within half of the watchdog's time. A process that hangs, or
// whose loop does, stops telling and is restarted. STOPPING comes when ctx ends.
func (n *Notifier) Run(ctx context.Context, await func(context.Context) error, state func() string, alive func(context.Context) error) {
	if n.socket == "" {
		return
	}
	defer n.tell("STOPPING=1", "STATUS=stopping")
	if await(ctx) != nil {
		return
	}
	said := state()
	n.tell("READY=1", "STATUS="+said)
	every := statusEvery
	if n.watchdog > 0 {
		every = n.watchdog / 2
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if n.watchdog > 0 {
			actx, cancel := context.WithTimeout(ctx, every)
			err := alive(actx)
			cancel()
			switch {
			case ctx.Err() != nil:
				return
			case err == nil:
				n.tell("WATCHDOG=1")
			default:
				n.log.Error("no sign of life for the supervisor", "err", err)
			}
		}
		if now := state(); now != said {
			said = now
			n.tell("STATUS=" + said)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tell sends one datagram. A supervisor that cannot be reached is told of once: the role works without.
func (n *Notifier) tell(lines ...string) {
	for i, l := range lines {
		lines[i] = strings.ReplaceAll(l, "\n", " ")
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"}) // the package knows @
	if err == nil {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, err = conn.Write([]byte(strings.Join(lines, "\n")))
		_ = conn.Close()
	}
	if err != nil && !n.failed {
		n.failed = true
		n.log.Warn("the supervisor does not listen at NOTIFY_SOCKET", "socket", n.socket, "err", err)
	}
}
