package cli

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"strait/cmd/internal/settings"
	"strait/plan/secret"
)

// maxKeyFile bounds a key file.
const maxKeyFile = 64 << 10

// keyring reads the key file of the settings; nil where none is named. w gets a warning of a file that others may
// read.
func keyring(w io.Writer, set *settings.Values) (*secret.Keyring, error) {
	path := set.String("secret.key-file")
	if path == "" {
		return nil, nil
	}
	ring, err := readKeys(w, path)
	if err != nil {
		return nil, failf("%s: %v", set.Name("secret.key-file"), err)
	}
	return ring, nil
}

func readKeys(w io.Writer, path string) (*secret.Keyring, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist; `stctl secret key new --file %s` makes it, and every host needs the same", path, path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, cause(err))
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder; name the file with the keys", path)
	}
	if err == nil && info.Mode().Perm()&0o007 != 0 {
		fmt.Fprintf(w, "warning: %s: every user of this host may open the file with the keys; `chmod o= %s` stops that\n", path, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, cause(err))
	}
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("%s has more than %d bytes; this is no key file", path, maxKeyFile)
	}
	return secret.ParseKeyring(text, path)
}

const keyFileHead = `# Keys of a Strait fleet, for the secrets of its jobs. The first seals, all of them open.
# Every host of the fleet, and whoever submits jobs, needs the same file. Keep it from others.
`

// createKeys makes a key file that is not there yet.
func createKeys(path string) (*secret.Key, error) {
	k, err := secret.NewKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, failf("%s is there already; `stctl secret key rotate --file %s` puts a new key in front of its keys", path, path)
	}
	if err != nil {
		return nil, failf("%s: %v", path, cause(err))
	}
	_, err = f.WriteString(keyFileHead + k.Line() + "\n")
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		_ = os.Remove(path)
		return nil, failf("%s: %v", path, cause(err))
	}
	return k, nil
}

// replaceFile puts other content into a file in one step; its mode stays.
func replaceFile(path string, content []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return cause(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return cause(err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return cause(err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	for _, step := range []func() error{func() error { return f.Chmod(info.Mode().Perm()) }, f.Sync} {
		if err == nil {
			err = step()
		}
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return cause(err)
}

// heldKeys are the keys that `stctl run` has before it starts: those it was given, else those that an earlier run left
// in its data folder; nil where there are none.
func heldKeys(w io.Writer, set *settings.Values, dataDir string) (*secret.Keyring, error) {
	ring, err := keyring(w, set)
	if ring != nil || err != nil || dataDir == "" {
		return ring, err
	}
	path := runKeyFile(dataDir)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if ring, err = readKeys(w, path); err != nil {
		return nil, failf("%v", err)
	}
	return ring, nil
}

func runKeyFile(dataDir string) string { return filepath.Join(dataDir, "secret.keys") }

// ownKeys makes the keys of a `stctl run` that has none: kept beside its etcd in dataDir, else gone with the process.
func ownKeys(dataDir string) (*secret.Keyring, error) {
	if dataDir == "" {
		k, err := secret.NewKey(rand.Reader)
		return secret.NewKeyring(k), err
	}
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return nil, failf("--data-dir %s: %v", dataDir, cause(err))
	}
	k, err := createKeys(runKeyFile(dataDir))
	return secret.NewKeyring(k), err
}
