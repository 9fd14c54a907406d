package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"strait/checkpoint"
	"strait/checkpoint/failpoint"
	"strait/plan"
	"strait/plan/fault"
	"strait/worker/connector"
)

// entryVersion is the format of prepared entries; a newer one is refused.
const entryVersion = 1

// entry is one prepared commit: the files of one subtask and checkpoint.
type entry struct {
	Version int         `json:"v"`
	Base    string      `json:"base"` // temp folder that holds them
	Files   []fileEntry `json:"files"`
}

// fileEntry is one closed file.
type fileEntry struct {
	Temp  string `json:"temp"`
	Final string `json:"final"`
	Size  int64  `json:"size"`
	Rows  int    `json:"rows"`
	Sum   string `json:"sum"`
}

// committer renames prepared files.
type committer struct {
	s  *sink
	cc connector.CommitterContext
}

func decodeEntry(p *checkpoint.Prepared) (entry, error) {
	var e entry
	if err := json.Unmarshal(p.Data, &e); err != nil {
		return e, fault.Fatalf("prepared commit %s cannot be read: %w", p.CommitID(), err)
	}
	if e.Version != entryVersion {
		return e, fault.Fatalf("prepared commit %s is of version %d, this build knows %d; commit it with the build that wrote it", p.CommitID(), e.Version, entryVersion)
	}
	return e, nil
}

// Commit implements connector.Committer. Whatever of it was done before is found done.
func (c *committer) Commit(ctx context.Context, prepared []checkpoint.Prepared) error {
	made := map[string]bool{}
	dirty := map[string]bool{}
	var bases []string
	for i := range prepared {
		e, err := decodeEntry(&prepared[i])
		if err != nil {
			return err
		}
		for _, f := range e.Files {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.move(f, made); err != nil {
				return c.explain(&prepared[i], f, err)
			}
			dirty[filepath.Dir(f.Final)] = true
		}
		bases = append(bases, e.Base)
	}
	for dir := range dirty {
		if err := c.s.fs.SyncDir(dir); err != nil {
			return fmt.Errorf("sync folder %s: %w", dir, because(dir, err))
		}
	}
	for _, base := range bases { // only what is empty, or left of a copy
		if err := removeAll(c.s.fs, base, func(string) bool { return true }); err != nil {
			c.cc.Log.Warn("empty temp folder stays", "path", base, "err", err)
		}
		removeEmptyAbove(c.s.fs, base, c.s.tmp)
	}
	return nil
}

var errLost = errors.New("is lost")

// move makes one file visible.
func (c *committer) move(f fileEntry, made map[string]bool) error {
	files := c.s.fs
	temp, err := files.Stat(f.Temp)
	if errors.Is(err, fs.ErrNotExist) {
		final, err := files.Stat(f.Final)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: neither %s nor %s is there", errLost, f.Temp, f.Final)
		}
		if err != nil {
			return err
		}
		if final.Size != f.Size {
			return fmt.Errorf("%w: %s is gone and %s has %d bytes instead of %d", errLost, f.Temp, f.Final, final.Size, f.Size)
		}
		return nil
	}
	if err != nil {
		return err
	}
	if temp.Size != f.Size {
		return fmt.Errorf("%w: %s has %d bytes instead of %d", errLost, f.Temp, temp.Size, f.Size)
	}
	if dir := filepath.Dir(f.Final); !made[dir] {
		if err := files.MkdirAll(dir); err != nil {
			return err
		}
		made[dir] = true
	}
	if err := failpoint.Inject("file.rename"); err != nil {
		return err
	}
	err = files.Rename(f.Temp, f.Final)
	if errors.Is(err, errCrossDevice) {
		if err := copyFile(files, f, f.Final); err != nil {
			return err
		}
		if err := failpoint.Inject("file.copied"); err != nil {
			return err
		}
		// The copy's name is durable before the original goes.
		if err := files.SyncDir(filepath.Dir(f.Final)); err != nil {
			return err
		}
		err = files.Remove(f.Temp)
	}
	return err
}

func (c *committer) explain(p *checkpoint.Prepared, f fileEntry, err error) error {
	if errors.Is(err, errLost) {
		return fault.Fatalf("commit %s: file %s %w; its %d rows were prepared by worker %s and are not in the target: put the file back, or start the job anew", p.CommitID(), f.Final, err, f.Rows, p.Worker)
	}
	w := writer{s: c.s}
	return fmt.Errorf("commit %s: %w", p.CommitID(), w.explain(f.Final, err))
}

// copyFile copies a temp file to another device: under a hidden name first, so that it appears whole.
func copyFile(files FS, f fileEntry, final string) (err error) {
	hidden := filepath.Join(filepath.Dir(final), "."+filepath.Base(final)+".tmp")
	in, err := files.Open(f.Temp)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := files.Create(hidden)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = out.Close()
			_ = files.Remove(hidden)
		}
	}()
	h := xxh3.New()
	n, err := io.Copy(io.MultiWriter(out, h), io.NewSectionReader(in, 0, f.Size))
	if err != nil {
		return err
	}
	if sum := fmt.Sprintf("xxh3:%016x", h.Sum64()); n != f.Size || sum != f.Sum {
		return fmt.Errorf("%w: %s was changed after it was prepared (%d bytes, %s, instead of %d, %s)", errLost, f.Temp, n, sum, f.Size, f.Sum)
	}
	if err = out.Sync(); err != nil {
		return err
	}
	if err = out.Close(); err != nil {
		return err
	}
	return files.Rename(hidden, final)
}

// Abandon implements connector.Committer.
func (c *committer) Abandon(ctx context.Context, older plan.Attempt, keep []checkpoint.Prepared) error {
	kept := map[string]bool{}
	for i := range keep {
		e, err := decodeEntry(&keep[i])
		if err != nil {
			return err
		}
		for _, f := range e.Files {
			kept[f.Temp] = true
		}
	}
	root := vertexDir(c.s.tmp, c.cc.Identity)
	attempts, err := c.s.fs.List(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", root, because(root, err))
	}
	for _, a := range attempts {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := strconv.ParseInt(a.Name, 10, 64)
		if err != nil || !a.Dir || n >= int64(older) {
			continue
		}
		dir := filepath.Join(root, a.Name)
		if err := removeAll(c.s.fs, dir, func(name string) bool { return kept[name] }); err != nil {
			return fmt.Errorf("remove %s: %w", dir, because(dir, err))
		}
	}
	removeEmptyAbove(c.s.fs, filepath.Join(root, "x"), c.s.tmp)
	return nil
}

// Close implements connector.Committer.
func (c *committer) Close() error { return nil }

// removeEmptyAbove removes the folders above name that are empty, up to the folder seatunnel in tmp, which stays.
func removeEmptyAbove(files FS, name, tmp string) {
	top := filepath.Join(tmp, "seatunnel") + string(filepath.Separator)
	for dir := filepath.Dir(name); strings.HasPrefix(dir, top); dir = filepath.Dir(dir) {
		if files.Remove(dir) != nil { // not empty
			return
		}
	}
}
