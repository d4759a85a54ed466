package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/brimgo/brim/store"
)

// oddKeys returns valid keys that a store might confuse.
func oddKeys() []string {
	return []string{
		"a", "A", "aa", "aA", "Aa", "a ", " a", "a\t", "a\n", "\na", "a\r\n", "a\r", "\x01", "\x7f", " ",
		"\u00e9", "e\u0301", "\u00c9", "\u00df", "ss", "SS", "\u1e9e", "\u0131", "i", "I", "\u0130", "\ufb01", "fi",
		"\u212b", "\u00c5", "A\u030a",
		"\u00b5", "\u03bc",
		"%", "%%", "%s", "%d", "_", "__", "a_", "a%", "a*", "a?", "*", "?", "[a]", "\\", "\\\\", "\\n", "\\0", "\\x00",
		"'", "''", "\"", "\"\"", "`", ";", "--", "';--", "$1", "$$", ":a", "@a", "#", "{a}", "{a}b", "{", "}", "(",
		")", "null", "NULL", "nil",
		"0", "00", "0.0", "1e0", "1", "01", "true", "/", "//", "/a", "a/", "a/b", "../a", ".", "..", "a:b", "a::b",
		"a|b", "a,b", "a.b",
		"\u00a0", "\u200b", "\u200d", "\ufeff", "\u2028", "\ufffd", "\uffff", "\U0001f600",
		"\U0001f468\u200d\U0001f469", "\U0010ffff", "\u0080", "\u00ff",
		"日本", "日本語", "\u3072", "\u3073", "\u3072\u3099", "\u0e17", "\u05e2", "\u202eabc", "abc",
		strings.Repeat("k", store.MaxKeyLen), strings.Repeat("k", store.MaxKeyLen-1),
		strings.Repeat("k", store.MaxKeyLen-1) + "K",
		strings.Repeat("k", 255), strings.Repeat("k", 256), strings.Repeat("k", 257), strings.Repeat("k", 63),
		strings.Repeat("k", 64),
		strings.Repeat("\u00e9", store.MaxKeyLen/2), strings.Repeat("\u00e9", store.MaxKeyLen/2-1) + "e",
		strings.Repeat("\u00e9", store.MaxKeyLen/2-1) + "ee",
		strings.Repeat("\U0010ffff", store.MaxKeyLen/4), strings.Repeat(" ", store.MaxKeyLen),
		strings.Repeat(" ", store.MaxKeyLen-1),
		strings.Repeat("%", store.MaxKeyLen), strings.Repeat("'", store.MaxKeyLen),
	}
}

// keys fills odd keys, each with its own amount, and tests that no fill changes another key.
func (s *suite) keys(t *testing.T) {
	const why = "keys are compared byte by byte: keys that differ in case, Unicode form, blanks or the last byte " +
		"are different buckets"
	st := s.real(t)
	keys := oddKeys()
	for i := 0; len(keys) < s.o.Keys; i++ {
		// Each number gives keys that differ in case, Unicode form or a character at either end.
		n := fmt.Sprint(i)
		keys = append(keys, "n"+n, "N"+n, "n"+n+" ", "n"+n+"%", "\u00e9"+n, "e\u0301"+n, n+"'", "\n"+n)
	}
	slices.Sort(keys)
	limit := store.Limit{Capacity: 1 << 53}
	want := make(map[string]float64)
	total := int64(0)
	var txns []store.Txn
	for i, k := range keys {
		want[k] = float64(i + 1)
		total += int64(len(k))
		txns = append(txns, store.Txn{{Bucket: limit.For(k), Amount: want[k]}})
	}
	for chunk := range slices.Chunk(txns, 500) {
		res, err := st.Apply(t.Context(), chunk...)
		if err != nil || len(res) != len(chunk) {
			t.Fatalf("Apply: %d results, %v", len(res), err)
		}
		for i, r := range res {
			if op := chunk[i][0]; r.Err != nil || !r.Accepted || r.States[0].Level != op.Amount {
				t.Fatalf("first fill of %q: %+v, want level %v\nwhy: %s", op.Key, r, op.Amount, why)
			}
		}
	}
	// Delete must remove these keys and no similar ones.
	for i, k := range []string{"a", "\u00e9", "%", "_", "n1"} {
		if err := st.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		total -= int64(len(k))
		if delete(want, k); len(want) != len(keys)-1-i {
			t.Fatalf("%q is not among the %d keys, or a key occurs twice", k, len(keys))
		}
	}
	list := entriesOf(t, st, "")
	for _, e := range list {
		if e.Level != want[e.Key] {
			t.Errorf("%q has level %v, want %v\nwhy: %s", e.Key, e.Level, want[e.Key], why)
		}
	}
	if len(list) != len(want) {
		t.Errorf("Visit visits %d keys, want %d\nwhy: %s", len(list), len(want), why)
	}
	size, err := st.Size(t.Context())
	if !errors.Is(err, errors.ErrUnsupported) && (err != nil || size < total) {
		t.Errorf("Size with %d bytes of keys: %d, %v; want at least those bytes", total, size, err)
	}
}
