package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"strait/checkpoint"
)

// What callers branch on, with errors.Is.
var (
	// ErrMissing: there is no such file.
	ErrMissing = errors.New("missing")
	// ErrDamaged: the file is not what its handle says.
	ErrDamaged = errors.New("damaged")
	// ErrDifferent: Put met a file of that name with other content.
	ErrDifferent = errors.New("exists with other content")
	// ErrFull: no space, or no quota.
	ErrFull = errors.New("no space left")
)

// MaxFile bounds what a stored file expands to.
const MaxFile = 1 << 30

// Local is a folder of this machine, or one that all hosts of the fleet mount. Safe for concurrent use, also by
// several processes.
type Local struct {
	dir string
	enc *zstd.Encoder
	dec *zstd.Decoder
}

// Open makes the folder if it is not there and proves that it can be written.
func Open(dir string) (*Local, error) {
	if dir == "" {
		return nil, errors.New("checkpoint storage: no folder given; name one that survives a restart")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("checkpoint storage: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("checkpoint storage: folder %s cannot be made: %w; make it, or give the process the right to", dir, err)
	}
	probe, err := os.CreateTemp(dir, tempPrefix+"probe-")
	if err != nil {
		return nil, fmt.Errorf("checkpoint storage: folder %s cannot be written: %w; give the process the right to, or name another folder", dir, explain(err))
	}
	_ = probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return nil, fmt.Errorf("checkpoint storage: folder %s: %w", dir, err)
	}
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("checkpoint storage: BUG: zstd: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxFile))
	if err != nil {
		return nil, fmt.Errorf("checkpoint storage: BUG: zstd: %w", err)
	}
	return &Local{dir: dir, enc: enc, dec: dec}, nil
}

// Dir is the folder, as an absolute path.
func (l *Local) Dir() string { return l.dir }

// Put stores data under name, durably, and returns the handle to read and verify it with. The same content again is
// success; other content is ErrDifferent.
func (l *Local) Put(ctx context.Context, name string, data []byte) (checkpoint.Handle, error) {
	if err := ctx.Err(); err != nil {
		return checkpoint.Handle{}, fmt.Errorf("checkpoint storage: put %s: %w", name, err)
	}
	if err := checkName(name); err != nil {
		return checkpoint.Handle{}, err
	}
	if len(data) > MaxFile {
		return checkpoint.Handle{}, fmt.Errorf("checkpoint storage: put %s: %d bytes, at most %d are allowed", name, len(data), MaxFile)
	}
	packed := l.enc.EncodeAll(data, nil)
	full := filepath.Join(l.dir, filepath.FromSlash(name))
	if err := l.makeFolder(filepath.Dir(full)); err != nil {
		return checkpoint.Handle{}, l.putError(name, err)
	}
	if err := publish(full, packed); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return l.existing(name, full, data)
		}
		return checkpoint.Handle{}, l.putError(name, err)
	}
	return checkpoint.Handle{Location: name, Size: int64(len(packed)), SHA256: sum(packed)}, nil
}

func (l *Local) putError(name string, err error) error {
	return fmt.Errorf("checkpoint storage: put %s in %s: %w", name, l.dir, explain(err))
}

// explain adds what an operator can do.
func explain(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w (%w); free space there or name a larger folder", ErrFull, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w; the file system is read only: check its mount and the kernel log", err)
	}
	return err
}

// makeFolder makes dir below the root and makes the new names durable, from the root down.
func (l *Local) makeFolder(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if dir == l.dir {
		return os.MkdirAll(dir, 0o755)
	}
	parent := filepath.Dir(dir)
	if err := l.makeFolder(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(parent)
}

// publish writes a temporary file beside full and links it to its name, which must not be there yet: a crash at any
// point leaves the name absent or whole.
func publish(full string, packed []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(full), tempPrefix)
	if err != nil {
		return err
	}
	temp := f.Name()
	defer func() {
		if rerr := os.Remove(temp); err == nil {
			err = rerr
		}
	}()
	_, err = f.Write(packed)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	if err := os.Link(temp, full); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(full))
}

func syncFolder(dir string) error {
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

// existing answers a Put whose name is taken. The folder is synced again: whoever linked the name may have died
// before that.
func (l *Local) existing(name, full string, data []byte) (checkpoint.Handle, error) {
	packed, err := os.ReadFile(full)
	if err != nil {
		return checkpoint.Handle{}, l.putError(name, err)
	}
	have, err := l.expand(packed)
	if err != nil || !bytes.Equal(have, data) {
		return checkpoint.Handle{}, fmt.Errorf("checkpoint storage: put %s in %s: %w; a name is written once: is the folder shared by two fleets?", name, l.dir, ErrDifferent)
	}
	if err := syncFolder(filepath.Dir(full)); err != nil {
		return checkpoint.Handle{}, l.putError(name, err)
	}
	return checkpoint.Handle{Location: name, Size: int64(len(packed)), SHA256: sum(packed)}, nil
}

func (l *Local) expand(packed []byte) ([]byte, error) { return l.dec.DecodeAll(packed, nil) }

// Get reads what h names and verifies size and checksum. Inline content is verified too.
func (l *Local) Get(ctx context.Context, h checkpoint.Handle) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("checkpoint storage: get %s: %w", h.Location, err)
	}
	if h.Location == "" {
		return inlined(h)
	}
	if err := checkName(h.Location); err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(l.dir, filepath.FromSlash(h.Location)))
	if err != nil {
		return nil, l.getError(h.Location, err)
	}
	defer func() { _ = f.Close() }()
	packed, err := io.ReadAll(io.LimitReader(f, h.Size+1))
	if err != nil {
		return nil, l.getError(h.Location, err)
	}
	if int64(len(packed)) != h.Size {
		return nil, l.damaged(h.Location, fmt.Sprintf("its handle says %d bytes and the file has %s", h.Size, atLeast(len(packed), h.Size)))
	}
	if got := sum(packed); got != h.SHA256 {
		return nil, l.damaged(h.Location, fmt.Sprintf("its handle says sha256 %s and the file has %s", h.SHA256, got))
	}
	data, err := l.expand(packed)
	if err != nil {
		return nil, l.damaged(h.Location, err.Error())
	}
	return data, nil
}

func atLeast(n int, limit int64) string {
	if int64(n) > limit {
		return "more"
	}
	return fmt.Sprint(n)
}

func inlined(h checkpoint.Handle) ([]byte, error) {
	if h.Inline == nil && h.Size == 0 {
		return nil, nil
	}
	if int64(len(h.Inline)) != h.Size || h.SHA256 != "" && sum(h.Inline) != h.SHA256 {
		return nil, fmt.Errorf("checkpoint storage: inline state of %d bytes: %w; the key that carries it was changed", len(h.Inline), ErrDamaged)
	}
	return h.Inline, nil
}

func (l *Local) getError(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint storage: %s in %s: %w; is this the folder the checkpoint was written to, mounted on every host?", name, l.dir, ErrMissing)
	}
	return fmt.Errorf("checkpoint storage: get %s in %s: %w", name, l.dir, err)
}

func (l *Local) damaged(name, how string) error {
	return fmt.Errorf("checkpoint storage: %s in %s: %w: %s; restore the file from a backup, or start from another checkpoint", name, l.dir, ErrDamaged, how)
}

// Stat checks that what h names is there with its size, without reading it.
func (l *Local) Stat(ctx context.Context, h checkpoint.Handle) error {
	if h.Location == "" {
		_, err := inlined(h)
		return err
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("checkpoint storage: stat %s: %w", h.Location, err)
	}
	if err := checkName(h.Location); err != nil {
		return err
	}
	info, err := os.Stat(filepath.Join(l.dir, filepath.FromSlash(h.Location)))
	if err != nil {
		return l.getError(h.Location, err)
	}
	if info.Size() != h.Size {
		return l.damaged(h.Location, fmt.Sprintf("its handle says %d bytes and the file has %d", h.Size, info.Size()))
	}
	return nil
}

// Object is one stored file.
type Object struct {
	Name string
	Size int64
}

// List names the files that begin with prefix, sorted. Files still being written are not listed.
func (l *Local) List(ctx context.Context, prefix string) ([]Object, error) {
	start := l.dir
	if i := strings.LastIndexByte(prefix, '/'); i > 0 {
		if err := checkName(prefix[:i]); err != nil {
			return nil, err
		}
		start = filepath.Join(l.dir, filepath.FromSlash(prefix[:i]))
	}
	var out []Object
	err := filepath.WalkDir(start, func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile, or nothing there yet
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if d.IsDir() || strings.HasPrefix(d.Name(), ".") { // a temporary file, or the mark
			return nil
		}
		rel, err := filepath.Rel(l.dir, p)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if !strings.HasPrefix(name, prefix) {
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		out = append(out, Object{name, info.Size()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("checkpoint storage: list %s in %s: %w", prefix, l.dir, err)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// Delete removes a file; an absent one is no error.
func (l *Local) Delete(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("checkpoint storage: delete %s: %w", name, err)
	}
	if err := checkName(name); err != nil {
		return err
	}
	full := filepath.Join(l.dir, filepath.FromSlash(name))
	if err := os.Remove(full); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint storage: delete %s in %s: %w", name, l.dir, err)
	}
	l.prune(filepath.Dir(full))
	return nil
}

// prune removes folders that have become empty; a folder in use refuses to go.
func (l *Local) prune(dir string) {
	for dir != l.dir && strings.HasPrefix(dir, l.dir) && os.Remove(dir) == nil {
		dir = filepath.Dir(dir)
	}
}
