package secrets

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"strait/plan/seal"
	"strait/plan/secret"
)

// maxFile bounds what ${file:PATH} reads.
const maxFile = 64 << 10

// Here are the sources of this process: its environment and its files. Relative paths begin in folder.
func Here(keys *secret.Keyring, folder string) seal.Sources {
	return seal.Sources{Keys: keys, Env: os.LookupEnv, File: func(path string) (string, error) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(folder, path)
		}
		return readFile(path)
	}}
}

// readFile reads a small text without the line end it may close with. The error does not name the file.
func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		var info fs.FileInfo
		if info, err = f.Stat(); err == nil && info.IsDir() {
			return "", errors.New("it is a folder")
		}
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	}
	var p *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", errors.New("it does not exist")
	case errors.As(err, &p):
		return "", p.Err
	case err != nil:
		return "", err
	case len(data) > maxFile:
		return "", fmt.Errorf("it has more than %d bytes", maxFile)
	case !utf8.Valid(data):
		return "", errors.New("it is not UTF-8 text")
	}
	text, _ := strings.CutSuffix(string(data), "\n")
	text, _ = strings.CutSuffix(text, "\r")
	return text, nil
}
