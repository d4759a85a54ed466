package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// FuzzNumber reads arbitrary values of flags. A number that was read is finite unless its text
// says otherwise, and is not 0 unless the text is.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{
		"1", "0", "-0", "1e3", "0x1p-2", "9007199254740992", "9007199254740993", "1e-400", "0e9", "Inf", "NaN", "1_000", "+5",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := parseNumber(s)
		if err != nil {
			if n != 0 || !strings.HasPrefix(err.Error(), "is ") {
				t.Errorf("%q: %v, %q", s, n, err)
			}
			return
		}
		if named := strings.ContainsAny(s, "iInN"); (math.IsInf(n, 0) || math.IsNaN(n)) && !named {
			t.Errorf("%q reads as %v", s, n)
		}
		var flag, again number
		if err := flag.Set(s); err != nil || flag != number(n) && n == n {
			t.Errorf("%q is the flag %v, %v; want %v", s, flag, err, n)
		}
		if err := again.Set(flag.String()); err != nil || again != flag && n == n {
			t.Errorf("%v, as it is written, reads as %v, %v", flag, again, err)
		}
	})
}

// FuzzTags reads arbitrary values of --tag.
func FuzzTags(f *testing.F) {
	for _, s := range []string{"category=travel", "=", "a", "a=", "a==b", ""} {
		f.Add(s, "b=2")
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		tags, err := parseTags([]string{a, b})
		if err != nil {
			if !errors.As(err, new(usageError)) || tags != nil {
				t.Errorf("%q, %q: %v, %v; want an error of usage", a, b, tags, err)
			}
			return
		}
		found := 0
		for name, value := range tags {
			if text := name + "=" + value; name != "" && (text == a || text == b) {
				found++
			}
		}
		if found != 2 {
			t.Errorf("%q and %q are read as %v", a, b, tags)
		}
	})
}

// FuzzFraction reads arbitrary shares. A share that was read is from 0 to 1, and is read again as
// it is written, to twelve digits.
func FuzzFraction(f *testing.F) {
	for _, s := range []string{"1%", "0.01", "0", "100%", "101%", "-1%", "%", "1e-3%", "NaN", "Inf%", "29%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var v, again fraction
		if err := v.Set(s); err != nil {
			if v != 0 {
				t.Errorf("%q: %v, %v", s, v, err)
			}
			return
		}
		if !(v >= 0 && v <= 1) {
			t.Errorf("%q reads as %v", s, float64(v))
		}
		if err := again.Set(v.String()); err != nil || math.Abs(float64(again-v)) > 1e-11*float64(v) {
			t.Errorf("%v, as it is written, reads as %v, %v", v.String(), float64(again), err)
		}
	})
}

// FuzzQuoteArg compares quoteArg with the splitting of a shell: the words of the command that size
// prints are its arguments.
func FuzzQuoteArg(f *testing.F) {
	for _, s := range []string{"access.log", "", "a b", "it's", "'", "$(x)", "-", "\\", "\xd6", "it's\n\"\\\u2028'"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if word, err := shellWord(quoteArg(s)); err != nil || word != s {
			t.Errorf("%q is written %s, which a shell reads as %q, %v", s, quoteArg(s), word, err)
		}
	})
}

// shellWord returns the word that a shell reads.
func shellWord(text string) (string, error) {
	if escapes, ok := strings.CutPrefix(text, "$'"); ok { // those of Go, up to the next quote
		escapes, ok = strings.CutSuffix(escapes, "'")
		if !ok || strings.Contains(strings.NewReplacer(`\\`, "", `\'`, "").Replace(escapes), "'") {
			return "", errors.New("a quote too few or too many")
		}
		return strconv.Unquote(`"` + strings.NewReplacer(`\\`, `\\`, `\'`, "'", `"`, `\"`).Replace(escapes) + `"`)
	}
	var word strings.Builder
	quoted, escaped := false, false
	for _, b := range []byte(text) { // quotes toggle, a backslash outside of them escapes
		switch {
		case escaped:
			word.WriteByte(b)
			escaped = false
		case b == '\'':
			quoted = !quoted
		case !quoted && b == '\\':
			escaped = true
		case !quoted && strings.IndexByte(" \t\n$`\"*?[;&|<>()#~!{}", b) >= 0:
			return "", fmt.Errorf("%q is special to a shell", b)
		default:
			word.WriteByte(b)
		}
	}
	if quoted || escaped {
		return "", errors.New("the word does not end")
	}
	return word.String(), nil
}
