package field

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/decimal128"
)

func TestPatterns(t *testing.T) {
	f := func(pattern, text, want string) {
		t.Helper()
		p, err := ParsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		got := "no"
		if c, ok := p.Parse([]byte(text)); ok {
			got = fmt.Sprintf("%04d-%02d-%02d %02d:%02d:%02d.%09d %d", c.Year, c.Month, c.Day, c.Hour, c.Minute, c.Sec, c.Nano, c.Offset)
			if back := string(p.Append(nil, &c)); back != text && want != "" && want[0] != '!' {
				t.Fatalf("%s: %q is written as %q", pattern, text, back)
			}
		}
		if want = trimMark(want); got != want {
			t.Fatalf("%s: %q gives %s, want %s", pattern, text, got, want)
		}
	}
	f("yyyy-MM-dd", "2024-02-29", "2024-02-29 00:00:00.000000000 0")
	f("yyyy-MM-dd", "2023-02-29", "no")
	f("yyyy-MM-dd", "2024-2-9", "no")
	f("yyyy-MM-dd", "2024-02-29 ", "no")
	f("yyyy/M/d", "2024/2/9", "2024-02-09 00:00:00.000000000 0")
	f("yyyyMMdd", "20240229", "2024-02-29 00:00:00.000000000 0")
	f("dd.MM.yy", "29.02.24", "2024-02-29 00:00:00.000000000 0")
	f("d MMM yyyy", "9 Feb 2024", "2024-02-09 00:00:00.000000000 0")
	f("MMMM d, yyyy", "February 9, 2024", "2024-02-09 00:00:00.000000000 0")
	f("yyyy-MM-dd HH:mm:ss", "2024-02-29 23:59:59", "2024-02-29 23:59:59.000000000 0")
	f("yyyy-MM-dd HH:mm:ss", "2024-02-29 24:00:00", "no")
	f("yyyy-MM-dd HH:mm:ss.SSS", "2024-02-29 23:59:59.007", "2024-02-29 23:59:59.007000000 0")
	f("yyyy-MM-dd HH:mm:ss.SSSSSSSSS", "2024-02-29 23:59:59.000000001", "2024-02-29 23:59:59.000000001 0")
	f("yyyy-MM-dd HH:mm:ss[.SSS]", "2024-02-29 23:59:59", "!2024-02-29 23:59:59.000000000 0")
	f("yyyy-MM-dd HH:mm:ss[.SSS]", "2024-02-29 23:59:59.5", "no")
	f("yyyy-MM-dd'T'HH:mm:ssXXX", "2024-02-29T23:59:59+02:00", "2024-02-29 23:59:59.000000000 7200")
	f("yyyy-MM-dd'T'HH:mm:ssXXX", "2024-02-29T23:59:59Z", "2024-02-29 23:59:59.000000000 0")
	f("yyyy-MM-dd HH:mm:ss Z", "2024-02-29 23:59:59 -0530", "2024-02-29 23:59:59.000000000 -19800")
	f("hh:mm a", "12:05 AM", "1970-01-01 00:05:00.000000000 0")
	f("hh:mm a", "11:05 PM", "1970-01-01 23:05:00.000000000 0")
	f("yyyyMMddHHmmssSSS", "20240229235959123", "2024-02-29 23:59:59.123000000 0")
	f("yyyy''MM", "2024'02", "2024-02-01 00:00:00.000000000 0")
	f("yyyy年MM月dd日", "2024年02月29日", "2024-02-29 00:00:00.000000000 0")
	for _, bad := range []string{"", "yyyyQ", "yyyy-'MM", "yyyy]", "[yyyy", "SSSSSSSSSS"} {
		if _, err := ParsePattern(bad); err == nil {
			t.Errorf("pattern %q is taken", bad)
		}
	}
}

func trimMark(s string) string {
	if s != "" && s[0] == '!' {
		return s[1:]
	}
	return s
}

func TestCalendar(t *testing.T) {
	at := time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)
	for at.Year() < 10000 {
		days := at.Unix() / 86400
		if at.Unix()%86400 < 0 {
			days--
		}
		y, m, d := at.Date()
		if got := dayNumber(y, int(m), d); got != days {
			t.Fatalf("%v: day %d, want %d", at, got, days)
		}
		if gy, gm, gd := civil(days); gy != y || gm != int(m) || gd != d {
			t.Fatalf("day %d: %d-%d-%d, want %v", days, gy, gm, gd, at)
		}
		if y >= 0 {
			if got, ok := DefaultFormats().QuickDate([]byte(fmt.Sprintf("%04d-%02d-%02d", y, m, d))); !ok || int64(got) != days {
				t.Fatalf("%v: quickly %d, %v, want %d", at, got, ok, days)
			}
		}
		at = at.AddDate(0, 0, 1+int(days&31)*3)
	}
}

func TestAppendFloat(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0", math.Copysign(0, -1): "-0.0", 1: "1.0", 1.5: "1.5", 100: "100.0", 0.001: "0.001", 0.0001: "1.0E-4", 9999999: "9999999.0",
		1e7: "1.0E7", 1.25e10: "1.25E10", -1e300: "-1.0E300", 9.99e-4: "9.99E-4", math.Inf(1): "Infinity", math.Inf(-1): "-Infinity", 4.9e-324: "5.0E-324", 123456.789: "123456.789"} {
		if got := string(AppendFloat(nil, v, 64)); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	if got := string(AppendFloat(nil, math.NaN(), 64)); got != "NaN" {
		t.Errorf("NaN: %s", got)
	}
	if got := string(AppendFloat(nil, float64(float32(0.1)), 32)); got != "0.1" {
		t.Errorf("0.1f: %s", got)
	}
}

func TestDecimal(t *testing.T) {
	f := func(text string, p, s int, want string) {
		t.Helper()
		got := ""
		if n, err := Decimal128([]byte(text), p, s); err != nil {
			got = err.Error()
		} else {
			got = string(appendDecimal128(nil, n, s))
		}
		if got != want {
			t.Fatalf("%q as decimal(%d, %d): %s, want %s", text, p, s, got, want)
		}
	}
	f("1.5", 10, 2, "1.50")
	f("-1.005", 10, 2, "-1.01")
	f("1.004", 10, 2, "1.00")
	f("+7", 10, 0, "7")
	f(".5", 10, 1, "0.5")
	f("5.", 10, 1, "5.0")
	f("0000000000000000000000001", 10, 1, "1.0")
	f("1e3", 10, 1, "1000.0")
	f("1.5E-3", 10, 4, "0.0015")
	f("9.99", 2, 1, ErrDigits.Error())
	f("99.95", 3, 1, ErrDigits.Error())
	f("1e999999", 10, 1, ErrDigits.Error())
	f("1e-999999", 10, 1, "0.0")
	f("0e999999", 10, 1, "0.0")
	f("", 10, 1, errDecimal.Error())
	f("-", 10, 1, errDecimal.Error())
	f("1,5", 10, 1, errDecimal.Error())
	f("1e", 10, 1, errDecimal.Error())
	f("12345678901234567890123456789012345678", 38, 0, "12345678901234567890123456789012345678")
	f("-99999999999999999999999999999999999999", 38, 0, "-99999999999999999999999999999999999999")
	if got := string(appendDecimal128(nil, decimal128.FromBigInt(new(big.Int).Neg(new(big.Int).Lsh(big.NewInt(1), 63))), 3)); got != "-9223372036854775.808" {
		t.Fatal(got)
	}
}

func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"1.5", "-0.005", "99999999999999999999", "1e5", ".", "1.2.3", "123456789012345678"} {
		f.Add(s, 10, 2)
	}
	f.Fuzz(func(t *testing.T, text string, p, s int) {
		if p < 1 || p > 38 || s < 0 || s > p || len(text) > 60 {
			t.Skip()
		}
		n, err := Decimal128([]byte(text), p, s)
		if i := strings.IndexAny(text, "eE"); i >= 0 && len(text)-i > 4 {
			return // big.Rat would write out every zero
		}
		r, ok := new(big.Rat).SetString(text)
		if err != nil || !ok {
			return // big.Rat takes fractions and hexadecimals, too
		}
		// The nearest multiple of 10^-s, halves away from zero.
		scaled := new(big.Rat).Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(s)), nil)))
		want := new(big.Int).Quo(new(big.Int).Add(new(big.Int).Mul(new(big.Int).Abs(scaled.Num()), big.NewInt(2)), scaled.Denom()), new(big.Int).Mul(scaled.Denom(), big.NewInt(2)))
		if scaled.Sign() < 0 {
			want.Neg(want)
		}
		if n.BigInt().Cmp(want) != 0 {
			t.Fatalf("%q as decimal(%d, %d): %s, want %s", text, p, s, n.BigInt(), want)
		}
	})
}

func FuzzNumbers(f *testing.F) {
	for _, s := range []string{"1", "-9223372036854775808", "9223372036854775808", "1.5", "1e22", "123456789.123456", "NaN", "0x1", "+1", "--1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want, werr := strconv.ParseInt(text, 10, 64)
		got, err := Int([]byte(text))
		if (err != nil) != (werr != nil) || err == nil && got != want {
			t.Fatalf("%q: %d, %v, want %d, %v", text, got, err, want, werr)
		}
		if g, err := Float([]byte(text), 64); err == nil {
			w, werr := strconv.ParseFloat(text, 64)
			if werr != nil || math.Float64bits(w) != math.Float64bits(g) && !(math.IsNaN(w) && math.IsNaN(g)) {
				t.Fatalf("%q: %v, want %v, %v", text, g, w, werr)
			}
		}
	})
}

func FuzzPattern(f *testing.F) {
	for _, p := range []string{"yyyy-MM-dd HH:mm:ss", "[d/]M", "yyyy'x'SSSX", "hh a", "MMM d", "''"} {
		f.Add(p, "2024-02-29 23:59:59")
		f.Add(p, "1/2")
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		p, err := ParsePattern(pattern)
		if err != nil {
			return
		}
		c, ok := p.Parse([]byte(text))
		if !ok {
			return
		}
		once := string(p.Append(nil, &c))
		again, ok := p.Parse([]byte(once))
		if ok && string(p.Append(nil, &again)) != once {
			t.Fatalf("%s: %q, then %q", pattern, once, p.Append(nil, &again))
		}
	})
}

func BenchmarkTimestamp(b *testing.B) {
	f := DefaultFormats()
	for _, text := range []string{"2024-02-29 23:59:59", "2024-02-29T23:59:59.123456"} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Timestamp([]byte(text), 6); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
