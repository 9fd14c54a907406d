//go:build !linux

package shuffle

import (
	"errors"
	"net"
	"syscall"
)

// tryWrite leaves everything to the writer.
func tryWrite(syscall.RawConn, net.Buffers) (int, error) { return 0, errors.ErrUnsupported }
