//go:build failpoint

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Enabled says whether this build has failpoints.
const Enabled = true

type point struct {
	action   string
	argument string
	at       int64 // 0: every time
	once     string
	reached  atomic.Int64
}

var load = sync.OnceValue(func() map[string]*point {
	points := map[string]*point{}
	for _, entry := range strings.Split(os.Getenv("STRAIT_FAILPOINTS"), ";") {
		name, spec, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok {
			continue
		}
		p := &point{}
		spec, p.once, _ = strings.Cut(spec, "/")
		if p.once != "" {
			p.once = "/" + p.once
		}
		spec, count, _ := strings.Cut(spec, "@")
		p.at, _ = strconv.ParseInt(count, 10, 64)
		p.action, p.argument, _ = strings.Cut(spec, ":")
		points[name] = p
	}
	return points
})

// Inject does what STRAIT_FAILPOINTS says of the point.
func Inject(name string) error {
	p := load()[name]
	if p == nil {
		return nil
	}
	if n := p.reached.Add(1); p.at != 0 && n != p.at {
		return nil
	}
	if p.once != "" {
		f, err := os.OpenFile(p.once, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return nil // it happened already
		}
		_ = f.Close()
	}
	switch p.action {
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "hold":
		for {
			if st, err := os.Stat(p.once); err != nil || st.Size() > 0 {
				return nil
			}
			time.Sleep(2 * time.Millisecond)
		}
	case "sleep":
		d, err := time.ParseDuration(p.argument)
		if err != nil {
			return fmt.Errorf("failpoint %s: %w", name, err)
		}
		time.Sleep(d)
	case "panic":
		panic("failpoint " + name)
	case "error":
		return fmt.Errorf("failpoint %s", name)
	}
	return nil
}
