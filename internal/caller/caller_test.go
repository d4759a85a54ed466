package clientkey

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/brimgo/brim/store"
)

func TestOfAddress(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7":         "ip:192.0.2.7",
		"2001:db8:1:2::7":   "ip:2001:db8:1:2::/64",
		"2001:db8:1:2:3::7": "ip:2001:db8:1:2::/64",
		"fe80::7%eth0":      "ip:fe80::/64",
	} {
		if got := OfAddress(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	if got := OfAddress(netip.Addr{}); got != Unknown {
		t.Errorf("no address: %q, want %q", got, Unknown)
	}
}

// TestStorable sees that usual keys stay as they are.
func TestStorable(t *testing.T) {
	for key, same := range map[string]bool{
		"tenant:42": true, strings.Repeat("k", 256): true, strings.Repeat("k", 257): false, "\xff": false, "a\x00b": false,
	} {
		if got := Storable(key); (got == key) != same {
			t.Errorf("%.10q becomes %q; want the same key: %v", key, got, same)
		}
	}
}

// FuzzStorable gives arbitrary keys of clients to a store. Every store must be able to keep the
// result, and two keys must not become one.
func FuzzStorable(f *testing.F) {
	for _, s := range []string{"a", "", "\x00", "\xff", strings.Repeat("k", maxLen), strings.Repeat("k", maxLen+1)} {
		f.Add(s, s+"x")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		keyA, keyB := Storable(a), Storable(b)
		if err := store.ValidateKey("prefix/" + keyA); err != nil || len(keyA) > maxLen {
			t.Errorf("%q becomes %q: %v", a, keyA, err)
		}
		if a != b && keyA == keyB {
			t.Errorf("%q and %q both become %q", a, b, keyA)
		}
	})
}
