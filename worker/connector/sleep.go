package connector

import (
	"context"
	"time"
)

// Sleep waits for d or until the context ends, and then returns its error. Plugins whose job sets a pause use it.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
