package option

import "strings"

// Nearest returns the name that is closest to a misspelt one, or "" where none is near: more than one letter in
// four is wrong, and it is no part of a longer name either. Distance is Damerau's (a swap of neighbours counts
// once), separators and case do not count.
func Nearest(wrong string, names []string) string {
	w := fold(wrong)
	if w == "" {
		return ""
	}
	best, bestDist := "", 1<<30
	part := ""
	for _, n := range names {
		f := fold(n)
		if d := distance(w, f); d < bestDist {
			best, bestDist = n, d
		}
		if len(w) >= 4 && (strings.HasPrefix(f, w) || strings.HasSuffix(f, w)) && (part == "" || len(n) < len(part)) {
			part = n
		}
	}
	limit := 1
	if len(w) > 5 {
		limit = len(w)/4 + 1
	}
	if bestDist > limit {
		return part
	}
	return best
}

func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// maxWord bounds the work for hostile input; no option name is that long.
const maxWord = 64

func distance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return 1 << 20
	}
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
