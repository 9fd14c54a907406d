package storage

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// markName is the file that tells one folder from another. No stored file begins with a dot.
const markName = ".folder-id"

// Mark gives the folder a random name of its own, if it has none yet, and returns it. Whoever reads the same one
// elsewhere (ReadMark) sees the same folder.
func (l *Local) Mark() (string, error) {
	if have, err := ReadMark(l.dir); err == nil || !errors.Is(err, ErrMissing) {
		return have, err
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	err := publish(filepath.Join(l.dir, markName), []byte(hex.EncodeToString(id[:])+"\n"))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", l.putError(markName, err)
	}
	return ReadMark(l.dir) // also where another process was faster
}

// ReadMark reads the mark of a folder and changes nothing. ErrMissing: no such folder, or nobody has marked it.
func ReadMark(dir string) (string, error) {
	f, err := os.Open(filepath.Join(dir, markName))
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("checkpoint storage: folder %s: %w, or it was never marked", dir, ErrMissing)
	}
	if err != nil {
		return "", fmt.Errorf("checkpoint storage: folder %s: %w", dir, err)
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, 128))
	if err != nil {
		return "", fmt.Errorf("checkpoint storage: folder %s: %w", dir, err)
	}
	mark := strings.TrimSpace(string(text))
	if _, err := hex.DecodeString(mark); err != nil || len(mark) != 32 {
		return "", fmt.Errorf("checkpoint storage: file %s in %s: %w; delete it, the next coordinator to start makes it anew", markName, dir, ErrDamaged)
	}
	return mark, nil
}
