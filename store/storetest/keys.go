package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/brimgo/brim/store"
)

// oddKeys returns valid keys that a store might confuse.
func oddKeys() []string {
	keys := []string{
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
	return keys
}

// keys fills odd keys, each with its own amount, and tests that no fill changes another key.
func (s *suite) keys(t *testing.T) {
	const why = "keys are compared byte by byte: keys that differ in case, Unicode form, blanks or the last byte " +
		"are different buckets"
	st := s.real(t)
	keys := oddKeys()
	for i := 0; len(keys) < s.o.Keys; i++ {
		// Numbers in several forms, of which each is a prefix of another.
		n := fmt.Sprint(i)
		keys = append(keys, "n"+n, "N"+n, "n"+n+" ", "n"+n+"%", "\u00e9"+n, "e\u0301"+n, n+"'", "\n"+n)
	}
	limit := store.Limit{Capacity: 1 << 53}
	amount := func(i int) float64 { return float64(i + 1) }
	seen := make(map[string]bool)
	var txns []store.Txn
	for i, k := range keys {
		if seen[k] {
			t.Fatalf("key %d of the suite occurs twice", i)
		}
		seen[k] = true
		if err := store.ValidateKey(k); err != nil {
			t.Fatalf("key %d of the suite: %v", i, err)
		}
		txns = append(txns, store.Txn{{Bucket: limit.For(k), Amount: amount(i)}})
	}
	for chunk := range slices.Chunk(txns, 500) {
		res, err := st.Apply(t.Context(), chunk...)
		if err != nil || len(res) != len(chunk) {
			t.Fatalf("Apply: %d results, %v", len(res), err)
		}
		for i, r := range res {
			if r.Err != nil || !r.Accepted || r.States[0].Level != chunk[i][0].Amount {
				t.Fatalf("first fill of %q: %+v, want level %v\nwhy: %s", chunk[i][0].Key, r, chunk[i][0].Amount, why)
			}
		}
	}
	i := 0
	for chunk := range slices.Chunk(keys, 500) {
		buckets := make([]store.Bucket, len(chunk))
		for j, k := range chunk {
			buckets[j] = limit.For(k)
		}
		got, err := st.Read(t.Context(), buckets...)
		if err != nil || len(got) != len(chunk) {
			t.Fatalf("Read: %d states, %v", len(got), err)
		}
		for j, g := range got {
			if g.Level != amount(i) {
				t.Fatalf("%q has level %v, want %v\nwhy: %s", chunk[j], g.Level, amount(i), why)
			}
			i++
		}
	}
	slices.Sort(keys)
	if got := visited(t, st, ""); !slices.Equal(got, keys) {
		i := 0
		for i < min(len(got), len(keys)) && got[i] == keys[i] {
			i++
		}
		t.Fatalf("Visit visits %d keys, want %d; the first wrong one is number %d\nwhy: %s",
			len(got), len(keys), i, why)
	}
	// Delete must remove these keys and no similar ones.
	for _, k := range []string{"a", "\u00e9", "%", "_", "n1"} {
		if err := st.Delete(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		at, _ := slices.BinarySearch(keys, k)
		keys = slices.Delete(keys, at, at+1)
	}
	if got := visited(t, st, ""); !slices.Equal(got, keys) {
		t.Errorf("after the deletion of 5 keys Visit visits %d, want %d\nwhy: %s", len(got), len(keys), why)
	}
}
