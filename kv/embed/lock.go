package embed

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrLocked says that another process uses the data directory.
var ErrLocked = errors.New("data directory is in use")

// lockDir takes the directory for this process. The lock is an flock, so the kernel drops it when
// the process dies however it dies; the file itself stays and says nothing.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("embed: data directory %s: %w; name a directory this user may write", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "strait.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("embed: data directory %s: %w; name a directory this user may write", dir, err)
	}
	if err := flock(f); err != nil {
		who := owner(f)
		_ = f.Close()
		return nil, lockError(dir, who, err)
	}
	_ = f.Truncate(0)
	_, _ = f.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	// A plain etcd server on the same directory knows nothing of our file, but locks its database.
	// etcd would wait for that lock without end and without a word, so look first.
	db, err := os.OpenFile(filepath.Join(dir, "member", "snap", "db"), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("embed: data directory %s: %w; it must belong to the user that runs this process", dir, err)
	}
	err = flock(db)
	_ = db.Close()
	if err != nil {
		_ = f.Close()
		return nil, lockError(dir, "", err)
	}
	return f, nil
}

func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func lockError(dir, who string, err error) error {
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("embed: %w: %s is held by another process%s; stop that process or name another directory", ErrLocked, dir, who)
	}
	return fmt.Errorf("embed: lock data directory %s: %w", dir, err)
}

func owner(f *os.File) string {
	var buf [20]byte
	n, _ := f.ReadAt(buf[:], 0)
	if pid := strings.TrimSpace(string(buf[:n])); pid != "" {
		return " (pid " + pid + ")"
	}
	return ""
}
