package secret

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	keyBytes   = 32 // AES-256
	nonceBytes = 12
	tagBytes   = 16
	maxID      = 32
	// MaxKeys bounds a key file.
	MaxKeys = 100
	purpose = "strait secret 1 "
)

// Key is one key of a fleet.
type Key struct {
	ID   string // [a-z0-9][a-z0-9-]*, at most 32 characters
	seal cipher.AEAD
	raw  []byte
}

// NewKey makes a key from random bytes, with an id of its own.
func NewKey(random io.Reader) (*Key, error) {
	b := make([]byte, 5+keyBytes)
	if _, err := io.ReadFull(random, b); err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	id := "k-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:5]))
	return newKey(id, b[5:])
}

func newKey(id string, raw []byte) (*Key, error) {
	block, err := aes.NewCipher(raw)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Key{ID: id, seal: aead, raw: raw}, nil
}

// Line is the key as a line of a key file: its id, a blank, its bytes in base64.
func (k *Key) Line() string { return k.ID + " " + base64.StdEncoding.EncodeToString(k.raw) }

// String names the key and does not show it.
func (k *Key) String() string { return "key " + k.ID }

// GoString is String: %#v shows no key either.
func (k *Key) GoString() string { return k.String() }

func (k *Key) data() []byte { return []byte(purpose + k.ID) }

// Keyring holds the keys of a fleet; the first seals, all open. A nil ring has none.
type Keyring struct{ keys []*Key }

// NewKeyring makes a ring; its ids must differ.
func NewKeyring(keys ...*Key) *Keyring { return &Keyring{keys: keys} }

// ParseKeyring reads a key file: one key a line as Key.Line writes it, empty lines and # comments. name is the
// file's, for messages.
func ParseKeyring(text []byte, name string) (*Keyring, error) {
	r := &Keyring{}
	var errs []error
	sc := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		k, err := parseLine(line)
		switch {
		case err != nil:
		case r.find(k.ID) != nil:
			err = fmt.Errorf("the key id %s stands twice; give each key an id of its own", k.ID)
		case len(r.keys) == MaxKeys:
			err = fmt.Errorf("more than %d keys; remove those that no job uses any more (`stctl secret list`)", MaxKeys)
		default:
			r.keys = append(r.keys, k)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", name, n, err))
		}
		if len(errs) == 10 {
			break
		}
	}
	if err := sc.Err(); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w; this is no key file", name, err))
	}
	if len(errs) == 0 && len(r.keys) == 0 {
		errs = append(errs, fmt.Errorf("%s: no key in it; `stctl secret key new` makes one", name))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, nil
}

// parseLine reads one key. Its messages show nothing of the line.
func parseLine(line string) (*Key, error) {
	id, data, ok := strings.Cut(line, " ")
	if !ok || !ValidID(id) {
		return nil, errors.New("not a key; write an id ([a-z0-9-], at most 32 characters), a blank and the key in base64, as `stctl secret key new` does")
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(data))
	if err != nil || len(raw) != keyBytes {
		return nil, fmt.Errorf("key %s is not %d bytes in base64; `stctl secret key new` makes one", id, keyBytes)
	}
	return newKey(id, raw)
}

// ValidID says whether a text may be the id of a key.
func ValidID(id string) bool {
	for i := range len(id) {
		if c := id[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' && i > 0) {
			return false
		}
	}
	return id != "" && len(id) <= maxID
}

func (r *Keyring) find(id string) *Key {
	if r == nil {
		return nil
	}
	if i := slices.IndexFunc(r.keys, func(k *Key) bool { return k.ID == id }); i >= 0 {
		return r.keys[i]
	}
	return nil
}

// Empty says that there is no key.
func (r *Keyring) Empty() bool { return r == nil || len(r.keys) == 0 }

// IDs are the ids of the keys; the first is that of the one that seals.
func (r *Keyring) IDs() []string {
	if r == nil {
		return nil
	}
	ids := make([]string, len(r.keys))
	for i, k := range r.keys {
		ids[i] = k.ID
	}
	return ids
}

// String names the keys and shows none.
func (r *Keyring) String() string { return "keys " + strings.Join(r.IDs(), ", ") }

// GoString is String.
func (r *Keyring) GoString() string { return r.String() }

// ErrNoKey is the error of Seal without a key, and wrapped by that of Open.
var ErrNoKey = errors.New("there is no such key")

// Seal makes a token of a text under the first key.
func (r *Keyring) Seal(text string, random io.Reader) (string, error) {
	if r.Empty() {
		return "", ErrNoKey
	}
	k := r.keys[0]
	b := make([]byte, nonceBytes, nonceBytes+len(text)+tagBytes)
	if _, err := io.ReadFull(random, b); err != nil {
		return "", fmt.Errorf("seal: %w", err)
	}
	b = k.seal.Seal(b, b, []byte(text), k.data())
	return prefix + k.ID + "." + base64.RawURLEncoding.EncodeToString(b) + ")", nil
}

// Open gives the text of a token. The error names the key and what to do, never a value.
func (r *Keyring) Open(t Token) (string, error) {
	k := r.find(t.Key)
	if k == nil {
		have := "no key at all"
		if !r.Empty() {
			have = "only " + strings.Join(r.IDs(), ", ")
		}
		return "", fmt.Errorf("the value is sealed under key %s, and here is %s: %w; add the key to the file that secret.key-file (--secret-key-file) names, on every host",
			t.Key, have, ErrNoKey)
	}
	text, err := k.seal.Open(nil, t.data[:nonceBytes], t.data[nonceBytes:], k.data())
	if err != nil {
		return "", fmt.Errorf("the value sealed under key %s does not open: it was changed or cut off, or the key of that id in the file that secret.key-file (--secret-key-file) names is another one; seal the value again, or use the same key file on every host", t.Key)
	}
	return string(text), nil
}
