package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"strait/kv/record"
)

// loads asks every worker how busy its host is, again and again, and tells the fleet. Only a leader that places by it
// does, and nothing of it is written anywhere. A worker that does not answer is unknown after a while.
func (l *loop) loads(ctx context.Context) error {
	tick := time.NewTicker(l.c.LoadEvery)
	defer tick.Stop()
	for {
		at := map[string]string{} // worker -> its operations port
		if !l.ask(ctx, func() {
			if l.fleet == nil {
				return
			}
			for _, name := range l.fleet.Names() {
				if ops := l.fleet.Live(name).Record.Ops; ops != "" {
					at[name] = ops
				}
			}
		}) {
			return nil
		}
		got := l.askLoads(ctx, at)
		if !l.ask(ctx, func() {
			if l.fleet == nil {
				return
			}
			now := time.Now()
			for name, load := range got {
				l.fleet.Sample(name, load, now)
			}
			l.fleet.Weigh(now)
		}) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (l *loop) askLoads(ctx context.Context, at map[string]string) map[string]record.Load {
	ctx, cancel := context.WithTimeout(ctx, countersLimit)
	defer cancel()
	var mu sync.Mutex
	out := map[string]record.Load{}
	g := errgroup.Group{}
	g.SetLimit(16)
	for name, ops := range at {
		g.Go(func() error {
			load, err := askLoad(ctx, l.c.HTTP, ops)
			if err != nil {
				l.log.Debug("worker does not tell its load", "worker", name, "err", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			out[name] = load
			return nil
		})
	}
	_ = g.Wait()
	return out
}

func askLoad(ctx context.Context, c *http.Client, ops string) (load record.Load, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/load", nil)
	if err != nil {
		return load, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return load, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return load, errors.New(resp.Status)
	}
	return load, json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&load)
}
