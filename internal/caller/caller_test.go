package caller

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/store"
)

func TestAddressKey(t *testing.T) {
	for _, c := range []struct {
		address string
		bits    int
		want    string
	}{
		{"192.0.2.7", 0, "192.0.2.7"},
		{"::ffff:192.0.2.7", 48, "192.0.2.7"},
		{"2001:db8:1:2::7", 0, "2001:db8:1:2::/64"},
		{"2001:db8:1:2:3::7", 64, "2001:db8:1:2::/64"},
		{"2001:db8:1:2ff::7", 56, "2001:db8:1:200::/56"},
		{"2001:db8:1:2ff::7", 48, "2001:db8:1::/48"},
		{"2001:db8::7", 128, "2001:db8::7/128"},
		{"2001:db8:1:2::7%eth0", 0, "2001:db8:1:2::/64"},
		{"fe80::7%eth0", 0, "fe80::7%eth0"},
		{"fe80::8%eth0", 48, "fe80::8%eth0"},
		{"64:ff9b::c000:207", 0, "192.0.2.7"},
		{"64:ff9b:1::c000:207", 0, "64:ff9b:1::/64"}, // local use (RFC 8215): the operator chooses the place
		{"2002:c000:207:1::9", 64, "192.0.2.7"},
	} {
		if got := AddressKey("api", netip.MustParseAddr(c.address), c.bits); got != "api:ip:"+c.want {
			t.Errorf("%s, %d bits: %q, want %q", c.address, c.bits, got, c.want)
		}
	}
	if got := AddressKey("api", netip.Addr{}, 0); got != "api:ip:unknown" {
		t.Errorf("no address: %q, want api:ip:unknown", got)
	}
	for bits, valid := range map[int]bool{-1: false, 0: true, 32: false, 33: true, 128: true, 129: false} {
		if err := ValidateBits(bits); (err == nil) != valid {
			t.Errorf("%d bits: %v", bits, err)
		}
	}
}

// TestKey sees that usual keys stay readable.
func TestKey(t *testing.T) {
	for key, same := range map[string]bool{
		"tenant:42": true, strings.Repeat("k", 256): true, strings.Repeat("k", 257): false, "\xff": false, "a\x00b": false,
	} {
		if got := Key("api", key); (got == "api:key:"+key) != same {
			t.Errorf("%.10q becomes %q; want the same key: %v", key, got, same)
		}
	}
}

func TestValidateName(t *testing.T) {
	for _, name := range []string{"", "a:b", "é", "a\nb", strings.Repeat("n", 65)} {
		if ValidateName(name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
	for _, name := range []string{"login", `up "load\s`, strings.Repeat("n", 64)} {
		if err := ValidateName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzKey makes the keys of two callers. Every store must be able to keep them, and they must
// differ if the policies differ, or the keys do, or one has a key and the other an address.
func FuzzKey(f *testing.F) {
	long := strings.Repeat("k", maxKey+1)
	hashed := strings.TrimPrefix(Key("", long), ":hash:")
	for _, s := range [][4]string{
		{"a", "x", "a", "y"},
		{"a", "x", "ab", "x"},
		{"a", "b:x", "a:b", "x"},
		{"a", "key:x", "a:key", "x"},
		{"a", long, "a", "hash:" + hashed},
		{"a", long, "a", hashed},
		{"a", "192.0.2.1", "a", "ip:192.0.2.1"},
		{"a", "", "a", "\x00"},
		{"a", "\xff", "a", "\xfe"},
		{"a", "unknown", "a", "ip:unknown"},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	f.Fuzz(func(t *testing.T, policyA, a, policyB, b string) {
		if ValidateName(policyA) != nil || ValidateName(policyB) != nil {
			return
		}
		keyA, keyB := Key(policyA, a), Key(policyB, b)
		if err := store.ValidateKey("prefix/" + keyA); err != nil || len(keyA) > maxName+len(":key:")+maxKey {
			t.Errorf("%q of %q becomes %q: %v", a, policyA, keyA, err)
		}
		if (policyA != policyB || a != b) && keyA == keyB {
			t.Errorf("%q of %q and %q of %q both become %q", a, policyA, b, policyB, keyA)
		}
		addr, err := netip.ParseAddr(b)
		if err != nil {
			addr = netip.Addr{}
		}
		if address := AddressKey(policyB, addr, 0); address == keyA || policyA != policyB && address == AddressKey(policyA, addr, 0) {
			t.Errorf("the address %q of %q and %q of %q both become %q", b, policyB, a, policyA, address)
		}
	})
}

// TestLeft has callers who hang up, whose deadline passes, and who stay.
func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := Left(t.Context()); err != nil {
			t.Errorf("no deadline: %v", err)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Left(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("hung up: %v", err)
		}
		patient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := Left(patient); err != nil {
			t.Errorf("before the deadline: %v", err)
		}
		if err := Left(overdue{t.Context()}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("at the deadline: %v; want its error, although the timer of the context is late", err)
		}
	})
}

// overdue is a context whose deadline has come, and whose timer has not fired yet.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now(), true }
