package file

import (
	"path/filepath"
	"strings"
)

// nullPartition is the folder value for null and for the empty text, as Hive writes it.
const nullPartition = "__HIVE_DEFAULT_PARTITION__"

// partition is one key=value folder.
type partition struct{ key, value string }

// partitionsOf lists the key=value folders on the path of a file, outermost first. Of a key that stands twice the
// inner one counts, at the place of the outer, as in SeaTunnel.
func partitionsOf(file string) []partition {
	var out []partition
	for _, part := range strings.Split(filepath.ToSlash(filepath.Dir(file)), "/") {
		key, value, ok := strings.Cut(part, "=")
		if !ok || key == "" {
			continue
		}
		p := partition{unescapePart(key), unescapePart(value)}
		twice := false
		for i := range out {
			if out[i].key == p.key {
				out[i].value, twice = p.value, true
			}
		}
		if !twice {
			out = append(out, p)
		}
	}
	return out
}

const upperHex = "0123456789ABCDEF"

// escapePart makes a value fit to be a part of a folder name: it may hold a slash, or be "..".
func escapePart(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, nullPartition...)
	}
	dots := strings.Trim(s, ".") == ""
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < 0x20 || c == 0x7f || c == '/' || c == '\\' || c == '%' || c == '=' || dots {
			dst = append(dst, '%', upperHex[c>>4], upperHex[c&15])
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

// unescapePart is the inverse of escapePart; a % that begins no pair of hexadecimal digits is itself.
func unescapePart(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := hexDigit(s[i+1]), hexDigit(s[i+2])
			if hi >= 0 && lo >= 0 {
				b.WriteByte(byte(hi<<4 | lo))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	}
	return -1
}
