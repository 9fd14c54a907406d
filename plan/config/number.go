package config

import (
	"strconv"
	"strings"
)

// isNumber follows HOCON: a sign, digits with at most one dot, an exponent. Whole numbers must fit 64 bits.
func isNumber(s string) bool {
	rest := strings.TrimPrefix(s, "-")
	if s == "" || s[0] != '-' && !digit(s) {
		return false
	}
	whole, rest := digits(rest)
	frac := ""
	real := false
	if strings.HasPrefix(rest, ".") {
		real = true
		frac, rest = digits(rest[1:])
	}
	if whole == "" && frac == "" {
		return false
	}
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		real = true
		rest = rest[1:]
		if rest != "" && (rest[0] == '+' || rest[0] == '-') {
			rest = rest[1:]
		}
		var exp string
		if exp, rest = digits(rest); exp == "" {
			return false
		}
	}
	if rest != "" {
		return false
	}
	if !real {
		_, err := strconv.ParseInt(s, 10, 64)
		return err == nil
	}
	return true
}

func digits(s string) (head, tail string) {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return s[:n], s[n:]
}
