package shuffle

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryWrite writes as much as the kernel takes at once; n is 0 when it takes nothing now.
func tryWrite(c syscall.RawConn, bufs net.Buffers) (n int, err error) {
	cerr := c.Write(func(fd uintptr) bool {
		n, err = unix.Writev(int(fd), bufs)
		return true // whatever came of it: do not wait
	})
	switch {
	case cerr != nil:
		return 0, cerr
	case err == unix.EAGAIN || err == unix.EINTR:
		return 0, nil
	}
	return max(n, 0), err
}
