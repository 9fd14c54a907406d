package file

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/zeebo/xxh3"

	"strait/transport/batch"
	"strait/worker/format"
)

const (
	maxOpen     = 64
	writeBuffer = 256 << 10 // of a lone file; many open files share the memory of the writer
)

// part is one open file.
type part struct {
	key   string
	entry fileEntry
	f     Output
	w     sinkFile
	buf   []byte
	hash  *xxh3.Hasher
	size  int64
	rows  int
	used  uint64
	table *tableWriter
}

// sinkFile is a format that buffers by itself (parquet); nil for those that encode into part.buf.
type sinkFile interface {
	write(b *batch.Batch, rows []int32) error
	buffered() int64
	finish() error
}

// part is the open file of a folder of a table; it opens one where there is none.
func (w *writer) part(t *tableWriter, folder string) (*part, error) {
	key := fmt.Sprintf("%d/%s", t.index, folder)
	if p := w.open[key]; p != nil {
		w.clock++
		p.used = w.clock
		return p, nil
	}
	if len(w.open) >= maxOpen {
		var old *part
		for _, p := range w.open {
			if old == nil || p.used < old.used {
				old = p
			}
		}
		if err := w.close(old); err != nil {
			return nil, err
		}
	}
	name := w.s.names.name(transactionID(w.wc.Identity, w.next), w.parts, w.now())
	if w.taken[t.o.finalPath(folder, name)] { // single_file_mode: closed before, to keep few open, or another table's
		n := w.s.names
		n.single = false
		name = n.name(transactionID(w.wc.Identity, w.next), w.parts, w.now())
	}
	w.taken[t.o.finalPath(folder, name)] = true
	w.parts++
	w.any = true
	dir := filepath.Join(w.base, fmt.Sprintf("t%d", t.index), folder)
	p := &part{key: key, table: t, hash: xxh3.New(), entry: fileEntry{Temp: filepath.Join(dir, name), Final: t.o.finalPath(folder, name)}}
	f, err := w.create(dir, p.entry.Temp)
	if err != nil {
		return nil, w.failure(p, err)
	}
	p.f = f
	w.clock++
	p.used = w.clock
	w.open[key] = p
	if t.o.parquet != nil {
		p.w, err = newParquetFile(p, t.o, w.wc.Memory)
	} else {
		p.buf = t.enc.Header(p.buf)
	}
	if err != nil {
		return nil, w.failure(p, err)
	}
	return p, nil
}

// create makes a temp file and its folder. A committer may remove folders while they are empty, so the folder can
// vanish before the file is there; then both are made again.
func (w *writer) create(dir, name string) (f Output, err error) {
	for range 10 {
		if !w.tmpDirs[dir] {
			if err = w.s.fs.MkdirAll(dir); err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				return nil, err
			}
		}
		w.tmpDirs[dir] = true
		f, err = w.s.fs.Create(name)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		w.tmpDirs[dir] = false
	}
	return nil, err
}

// Write implements io.Writer for formats that write by themselves.
func (p *part) Write(b []byte) (int, error) {
	n, err := p.f.Write(b)
	_, _ = p.hash.Write(b[:n])
	p.size += int64(n)
	return n, err
}

func (p *part) flush() error {
	if len(p.buf) == 0 {
		return nil
	}
	_, err := p.Write(p.buf)
	p.buf = p.buf[:0]
	return err
}

// relieve closes the part with the biggest buffer when all parquet files together hold too much.
func (w *writer) relieve() error {
	var total int64
	var big *part
	for _, p := range w.open {
		if p.w == nil {
			continue
		}
		n := p.w.buffered()
		total += n
		if big == nil || n > big.w.buffered() {
			big = p
		}
	}
	if total < w.wc.Memory || len(w.open) < 2 { // a lone file ends its row groups by itself
		return nil
	}
	return w.close(big)
}

// close ends a part: its bytes are durable afterwards.
func (w *writer) close(p *part) error {
	delete(w.open, p.key)
	var err error
	if p.w != nil {
		err = p.w.finish()
	} else {
		err = p.flush()
	}
	if err == nil {
		err = p.f.Sync()
	}
	if cerr := p.f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = w.s.fs.Remove(p.entry.Temp)
		return w.explain(p.entry.Temp, err)
	}
	p.entry.Size, p.entry.Rows = p.size, p.rows
	p.entry.Sum = fmt.Sprintf("xxh3:%016x", p.hash.Sum64())
	w.done = append(w.done, p.entry)
	return nil
}

// failure removes what there is of a part and says what to do.
func (w *writer) failure(p *part, err error) error {
	delete(w.open, p.key)
	if p.f != nil {
		_ = p.f.Close()
		_ = w.s.fs.Remove(p.entry.Temp)
	}
	return w.explain(p.entry.Temp, err)
}

func (w *writer) explain(name string, err error) error {
	var fe *format.RowError
	if errors.As(err, &fe) {
		return err
	}
	remedy := ""
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		remedy = "; free space there or set tmp_path to another folder"
	case errors.Is(err, fs.ErrPermission):
		remedy = "; give the user of the worker the right to write there or set tmp_path"
	case errors.Is(err, syscall.EROFS):
		remedy = "; the file system is read-only, set path and tmp_path to others"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		remedy = "; raise the limit of open files (ulimit -n)"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		remedy = "; a file stands where a folder is needed"
	}
	return fmt.Errorf("write %s: %w%s", name, because(name, err), remedy)
}
