package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"strait/checkpoint/failpoint"
	"strait/plan"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/format"
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
	folder *folderWriter
	groups map[string][]int32
	order  []string
}

func newWriter(s *sink, wc connector.WriterContext) (*writer, error) {
	if wc.Memory <= 0 {
		_, wc.Memory = s.Buffers()
	}
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
		if err == nil && len(p.buf) >= min(writeBuffer, int(w.wc.Memory)/len(w.open)) {
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
