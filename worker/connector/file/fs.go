package file

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"syscall"
	"time"

	"strait/plan/fault"
)

// FS is what the connector needs of a file system. Paths are absolute.
type FS interface {
	Stat(name string) (Info, error)
	// List gives the entries of a folder by name.
	List(dir string) ([]Info, error)
	Open(name string) (Input, error)
	// Create makes a new file; its folder must be there.
	Create(name string) (Output, error)
	// Rename replaces the target. errCrossDevice where it lies on another device.
	Rename(from, to string) error
	// Link gives a file a further name and fails with fs.ErrExist where the name is taken.
	Link(from, to string) error
	Remove(name string) error
	// MkdirAll makes a folder and those above it, durable.
	MkdirAll(dir string) error
	// SyncDir makes the names in a folder durable.
	SyncDir(dir string) error
}

// Info describes one entry.
type Info struct {
	Name    string // within its folder
	Size    int64
	ModTime time.Time
	Dir     bool
}

// Input is an open file to read.
type Input interface {
	io.ReaderAt
	io.Closer
}

// Output is an open file to write.
type Output interface {
	io.Writer
	Sync() error
	Close() error
}

var errCrossDevice = errors.New("the target lies on another device")

// local is the file system of this host.
type local struct{}

func info(i fs.FileInfo) Info {
	return Info{Name: i.Name(), Size: i.Size(), ModTime: i.ModTime(), Dir: i.IsDir()}
}

func (local) Stat(name string) (Info, error) {
	i, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return info(i), nil
}

func (local) List(dir string) ([]Info, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := make([]Info, 0, len(entries))
	for _, e := range entries {
		i, err := os.Stat(filepath.Join(dir, e.Name())) // follows links
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed in between, or a dangling link
		}
		if err != nil {
			return nil, err
		}
		n := info(i)
		n.Name = e.Name()
		out = append(out, n)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

func (local) Open(name string) (Input, error) { return os.Open(name) }

func (local) Create(name string) (Output, error) {
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
}

func (local) Rename(from, to string) error {
	err := os.Rename(from, to)
	if errors.Is(err, syscall.EXDEV) {
		return errCrossDevice
	}
	return err
}

func (local) Link(from, to string) error {
	err := os.Link(from, to)
	if errors.Is(err, syscall.EXDEV) {
		return errCrossDevice
	}
	return err
}

func (local) Remove(name string) error { return os.Remove(name) }

func (l local) MkdirAll(dir string) error {
	if i, err := os.Stat(dir); err == nil {
		if i.IsDir() {
			return nil
		}
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := l.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return l.SyncDir(parent)
}

func (local) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// because is the reason of a file system's error in a message that names the path itself: without the call, and
// without the path where it is that one. It is fatal where the next attempt would meet the same: this user may not,
// or nobody may.
func because(name string, err error) error {
	why := err
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path) && path.Path == name:
		why = path.Err
	case errors.As(err, &link) && (link.Old == name || link.New == name):
		why = link.Err
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return fault.Fatal(why)
	}
	return why
}

// walk visits the files below root in the order of their paths, folder by folder.
func walk(ctx context.Context, f FS, root string, visit func(name string, i Info) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	i, err := f.Stat(root)
	if err != nil {
		return err
	}
	if !i.Dir {
		return visit(root, i)
	}
	entries, err := f.List(root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(root, e.Name)
		if e.Dir {
			err = walk(ctx, f, name, visit)
		} else {
			err = visit(name, e)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed in between
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes the files and empty folders below dir for which keep says no, and dir itself when empty.
func removeAll(f FS, dir string, keep func(string) bool) error {
	entries, err := f.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	left := false
	for _, e := range entries {
		name := filepath.Join(dir, e.Name)
		switch {
		case e.Dir:
			if err := removeAll(f, name, keep); err != nil {
				return err
			}
			if _, err := f.Stat(name); err == nil {
				left = true
			}
			continue
		case keep != nil && keep(name):
			left = true
			continue
		}
		if err := f.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if left {
		return nil
	}
	if err := f.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Filesystem tells connectors of other file systems from this one.
var _ FS = local{}
