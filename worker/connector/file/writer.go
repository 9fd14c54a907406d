package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/zeebo/xxh3"

	"strait/checkpoint/failpoint"
	"strait/plan"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/format"
	"strait/worker/format/field"
)

const (
	maxOpen     = 64
	writeBuffer = 256 << 10 // of a lone file; many open files share openBytes
	openBytes   = 16 << 20
)

// writer writes the rows of one subtask.
type writer struct {
	s       *sink
	wc      connector.WriterContext
	next    plan.CheckpointID
	parts   int
	tables  []*tableWriter
	open    map[string]*part // by table and folder
	clock   uint64           // counts uses, for the least recently used part
	done    []fileEntry      // closed, not prepared
	tmpDirs map[string]bool  // folders made for this checkpoint
	taken   map[string]bool  // targets of this checkpoint
	base    string           // temp folder of this checkpoint
	any     bool             // something was prepared or written
	now     func() time.Time
}

// tableWriter partitions and encodes the rows of one table.
type tableWriter struct {
	o      *output
	index  int
	enc    format.Encoder
	folder folderWriter
	groups map[string][]int32
	order  []string
}

// part is one open file.
type part struct {
	key    string
	entry  fileEntry
	f      Output
	w      sinkFile
	buf    []byte
	hash   *xxh3.Hasher
	size   int64
	rows   int
	used   uint64
	table  *tableWriter
	failed error
}

// sinkFile is a format that buffers by itself (parquet); nil for those that encode into part.buf.
type sinkFile interface {
	write(b *batch.Batch, rows []int32) error
	buffered() int64
	finish() error
}

func newWriter(s *sink, wc connector.WriterContext) (*writer, error) {
	w := &writer{s: s, wc: wc, next: wc.Next, open: map[string]*part{}, now: time.Now}
	for i, o := range s.outputs {
		t := &tableWriter{o: o, index: i, groups: map[string][]int32{}}
		if o.encoder != nil {
			var err error
			if t.enc, err = o.encoder(); err != nil {
				return nil, err
			}
		}
		if len(o.by) > 0 {
			t.folder = newFolderWriter(o)
		}
		w.tables = append(w.tables, t)
	}
	w.begin()
	return w, nil
}

// begin starts the files of the next checkpoint.
func (w *writer) begin() {
	w.base = filepath.Join(attemptDir(w.s.tmp, w.wc.Identity), fmt.Sprintf("%d_%d", w.next, w.wc.Subtask))
	w.done, w.tmpDirs, w.taken = nil, map[string]bool{}, map[string]bool{}
}

// Write implements connector.Writer.
func (w *writer) Write(ctx context.Context, b *batch.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	t := w.tables[b.Schema.Index]
	if t.folder == nil {
		return w.writeAll(t, b)
	}
	t.order = t.order[:0]
	var buf []byte
	t.folder.bind(b)
	for r := range b.Rows {
		buf = t.folder.append(buf[:0], r)
		rows, ok := t.groups[string(buf)]
		if !ok || len(rows) == 0 {
			key := string(buf)
			t.order = append(t.order, key)
			t.groups[key] = append(rows, int32(r))
			continue
		}
		t.groups[string(buf)] = append(rows, int32(r))
	}
	var err error
	for _, folder := range t.order {
		rows := t.groups[folder]
		if err == nil {
			err = w.writeRows(t, folder, b, rows)
		}
		t.groups[folder] = rows[:0]
	}
	if len(t.groups) > 4*maxOpen {
		clear(t.groups)
	}
	return err
}

func (w *writer) writeAll(t *tableWriter, b *batch.Batch) error {
	for from := 0; from < b.Rows; {
		p, err := w.part(t, "")
		if err != nil {
			return err
		}
		n := min(b.Rows-from, w.s.batchSize-p.rows)
		sub := b
		if n < b.Rows {
			sub = b.Slice(from, from+n)
		}
		if err := w.put(p, sub, nil, n); err != nil {
			return err
		}
		from += n
	}
	return nil
}

func (w *writer) writeRows(t *tableWriter, folder string, b *batch.Batch, rows []int32) error {
	for len(rows) > 0 {
		p, err := w.part(t, folder)
		if err != nil {
			return err
		}
		n := min(len(rows), w.s.batchSize-p.rows)
		if err := w.put(p, b, rows[:n], n); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// put writes n rows to a part and closes it when it is full.
func (w *writer) put(p *part, b *batch.Batch, rows []int32, n int) error {
	var err error
	if p.w != nil {
		err = p.w.write(b, rows)
	} else {
		p.buf, err = p.table.enc.Encode(p.buf, b, rows)
		if err == nil && len(p.buf) >= min(writeBuffer, openBytes/len(w.open)) {
			err = p.flush()
		}
	}
	if err != nil {
		return w.failure(p, err)
	}
	p.rows += n
	if p.rows >= w.s.batchSize {
		return w.close(p)
	}
	if p.w != nil {
		return w.relieve()
	}
	return nil
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
	if total < parquetBuffer || len(w.open) < 2 { // a lone file ends its row groups by itself
		return nil
	}
	return w.close(big)
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
		p.w, err = newParquetFile(p, t.o)
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

// Prepare implements connector.Writer.
func (w *writer) Prepare(ctx context.Context, n plan.CheckpointID) ([][]byte, error) {
	if w.s.empty && !w.any {
		for _, t := range w.tables {
			if len(t.o.by) == 0 {
				if _, err := w.part(t, ""); err != nil {
					return nil, err
				}
			}
		}
	}
	keys := make([]string, 0, len(w.open))
	for k := range w.open {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return w.open[keys[i]].entry.Temp < w.open[keys[j]].entry.Temp })
	for _, k := range keys {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := w.close(w.open[k]); err != nil {
			return nil, err
		}
	}
	for dir, made := range w.tmpDirs {
		if !made {
			continue
		}
		if err := w.s.fs.SyncDir(dir); err != nil {
			return nil, w.explain(dir, err)
		}
	}
	files := w.done
	base := w.base
	w.next = n + 1
	w.begin()
	if len(files) == 0 {
		return nil, nil
	}
	if !w.s.tx {
		return nil, w.publish(files, base)
	}
	if err := failpoint.Inject("file.prepared"); err != nil {
		return nil, err
	}
	data, err := json.Marshal(entry{Version: entryVersion, Base: base, Files: files})
	if err != nil {
		return nil, err
	}
	return [][]byte{data}, nil
}

// publish makes files visible without a transaction. A name that is taken is kept: the file gets the next free
// one, since an earlier checkpoint or job may have written it.
func (w *writer) publish(files []fileEntry, base string) error {
	dirs := map[string]bool{}
	for _, f := range files {
		dir := filepath.Dir(f.Final)
		if err := w.s.fs.MkdirAll(dir); err != nil {
			return w.explain(f.Final, err)
		}
		ext := w.s.names.extension
		stem := strings.TrimSuffix(f.Final, ext)
		for k := 0; ; k++ {
			final := f.Final
			if k > 0 {
				final = fmt.Sprintf("%s_%d%s", stem, k, ext)
			}
			err := w.s.fs.Link(f.Temp, final)
			if errors.Is(err, errCrossDevice) {
				if _, serr := w.s.fs.Stat(final); serr == nil {
					continue
				}
				err = copyFile(w.s.fs, f, final)
			} else if errors.Is(err, fs.ErrExist) {
				continue
			}
			if err != nil {
				return w.explain(final, err)
			}
			break
		}
		if err := w.s.fs.Remove(f.Temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return w.explain(f.Temp, err)
		}
		dirs[dir] = true
	}
	for dir := range dirs {
		if err := w.s.fs.SyncDir(dir); err != nil {
			return w.explain(dir, err)
		}
	}
	return removeAll(w.s.fs, base, nil)
}

// Close implements connector.Writer.
func (w *writer) Close() error {
	for _, p := range w.open {
		if p.f != nil {
			_ = p.f.Close()
		}
	}
	clear(w.open)
	if len(w.tmpDirs) == 0 {
		return nil
	}
	// Only this checkpoint's folder: those of earlier ones are prepared.
	if err := removeAll(w.s.fs, w.base, nil); err != nil {
		return fmt.Errorf("remove %s: %w", w.base, because(w.base, err))
	}
	w.tmpDirs = map[string]bool{}
	removeEmptyAbove(w.s.fs, w.base, w.s.tmp)
	return nil
}

// folderWriter gives the partition folder of a row.
type folderWriter interface {
	bind(b *batch.Batch)
	append(dst []byte, r int) []byte
}

type expressionFolder struct {
	o       *output
	pieces  []piece
	b       *batch.Batch
	formats *field.Formats
	buf     []byte
}

// piece is literal text or the value of a column.
type piece struct {
	text string
	col  int // -1: text
}

func newFolderWriter(o *output) folderWriter {
	w := &expressionFolder{o: o, formats: field.DefaultFormats()}
	e := o.dirExpr
	for e != "" {
		i := strings.Index(e, "${")
		if i < 0 {
			w.pieces = append(w.pieces, piece{e, -1})
			break
		}
		if i > 0 {
			w.pieces = append(w.pieces, piece{e[:i], -1})
		}
		j := strings.IndexByte(e[i:], '}')
		name := e[i+2 : i+j]
		for k, c := range o.by {
			switch name {
			case fmt.Sprintf("k%d", k):
				w.pieces = append(w.pieces, piece{string(escapePart(nil, o.table.Columns[c].Name)), -1})
			case fmt.Sprintf("v%d", k):
				w.pieces = append(w.pieces, piece{"", c})
			}
		}
		e = e[i+j+1:]
	}
	return w
}

func (w *expressionFolder) bind(b *batch.Batch) { w.b = b }

func (w *expressionFolder) append(dst []byte, r int) []byte {
	for i := range w.pieces {
		p := &w.pieces[i]
		if p.col < 0 {
			dst = append(dst, p.text...)
			continue
		}
		a := w.b.Cols[p.col]
		if a.IsNull(r) {
			dst = append(dst, nullPartition...)
			continue
		}
		w.buf = w.value(w.buf[:0], &w.o.table.Columns[p.col].Type, p.col, r)
		if len(w.buf) > 0 && bytes.IndexFunc(w.buf, needsEscape) < 0 && w.buf[0] != '.' {
			dst = append(dst, w.buf...)
		} else {
			dst = escapePart(dst, string(w.buf))
		}
	}
	return dst
}

func needsEscape(c rune) bool {
	return c < 0x20 || c == 0x7f || c == '/' || c == '\\' || c == '%' || c == '='
}

// value is a partition value as SeaTunnel's toString gives it: ISO for times.
func (w *expressionFolder) value(dst []byte, t *schema.Type, col, r int) []byte {
	if t.Kind == schema.Timestamp {
		return appendISO(dst, w.b.Cols[col], r, t.Scale)
	}
	return field.AppendScalarText(dst, w.formats, t, w.b.Cols[col], r)
}
