package brim_test

import (
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/caller"
	"github.com/brimgo/brim/memory"
)

// owner tells a bucket from all others: the prefix of the Limiter, and the key, which a
// policy makes from a key or an address of a client.
type owner struct{ prefix, policy, kind, key string }

// bucketKey returns the key that the owner passes to the Limiter.
func (o owner) bucketKey() string {
	switch o.kind {
	case "key":
		return caller.Key(o.policy, o.key)
	case "address":
		return caller.AddressKey(o.policy, netip.MustParseAddr(o.key), 0)
	}
	return o.key // without a policy
}

// drawText draws a text from few symbols, so that two texts often have the same symbols in the same
// order.
func drawText(t *rapid.T, label string, from ...string) (text string) {
	for range rapid.IntRange(0, 3).Draw(t, label) {
		text += rapid.SampledFrom(from).Draw(t, label)
	}
	return text
}

// drawOwners draws two owners of different Limiters, or of the policies of some.
func drawOwners(t *rapid.T) (a, b owner) {
	if rapid.Bool().Draw(t, "without policies") {
		whole := drawText(t, "whole", "p", ":", "@", "1", "2", "@1:", "x") + drawText(t, "whole", "p", "x", "@1:p", "1:")
		cut := func() owner {
			at := rapid.IntRange(0, len(whole)).Draw(t, "cut")
			return owner{prefix: whole[:at], key: whole[at:]}
		}
		a, b = cut(), cut()
		if rapid.Bool().Draw(t, "the name of the other") {
			b = owner{key: fmt.Sprintf("@%d:%s", len(a.prefix), whole)}
		}
		return a, b
	}
	draw := func() owner {
		o := owner{prefix: drawText(t, "prefix", "p", "@"), policy: drawText(t, "policy", "p", "@", "1", "key", "ip") + "x"}
		if o.kind = rapid.SampledFrom([]string{"key", "address"}).Draw(t, "kind"); o.kind == "address" {
			o.key = rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.11", "2001:db8::"}).Draw(t, "address")
		} else {
			o.key = drawText(t, "key", "p", ":", "x:key:", "x:ip:", "192.0.2.1", "hash:", "key:", "\x00", hashOfNUL)
		}
		return o
	}
	return draw(), draw()
}

// hashOfNUL takes the place of the key that is a single NUL.
const hashOfNUL = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"

// TestNamesNeverMeet fills the buckets of two owners in one store. They have one bucket if the
// owners are the same, and two otherwise; and each Limiter lists, reads and resets its own bucket
// alone.
func TestNamesNeverMeet(t *testing.T) {
	if got := caller.Key("", "\x00"); got != ":hash:"+hashOfNUL {
		t.Fatalf("NUL becomes %s", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawOwners(t)
		if a.bucketKey() == "" || b.bucketKey() == "" {
			return
		}
		s := memory.New(nil)
		limiterOf := func(o owner) *brim.Limiter { return brim.New(s, &brim.Options{Prefix: o.prefix}) }
		keysOf := func(l *brim.Limiter, prefix string) (keys []string) {
			for e, err := range l.List(t.Context(), prefix) {
				if err != nil {
					t.Fatal(err)
				}
				keys = append(keys, e.Key)
			}
			return keys
		}
		never := brim.Limit{Capacity: 10}
		for _, o := range []owner{a, b} {
			if _, err := limiterOf(o).TryFillup(t.Context(), never.For(o.bucketKey()), 3); err != nil {
				t.Fatal(err)
			}
		}
		want := 3.0
		if a == b {
			want = 6
		}
		for _, o := range []owner{a, b} {
			st, err := limiterOf(o).StateOf(t.Context(), o.bucketKey())
			if err != nil || st.Level != want {
				t.Fatalf("%+v beside %+v: level %v, %v; want %v", a, b, st.Level, err, want)
			}
			for _, prefix := range []string{o.bucketKey(), o.bucketKey()[:1]} {
				found := 0
				for _, key := range keysOf(limiterOf(o), prefix) {
					if key == o.bucketKey() {
						found++
					}
				}
				if found != 1 {
					t.Fatalf("%+v beside %+v: listed %d times by %q", a, b, found, prefix)
				}
			}
		}
		if all := keysOf(brim.New(s, &brim.Options{AsStored: true}), ""); len(all) != map[bool]int{true: 1, false: 2}[a == b] {
			t.Fatalf("%+v beside %+v: the store has %q", a, b, all)
		}
		if err := limiterOf(a).Reset(t.Context(), a.bucketKey()); err != nil {
			t.Fatal(err)
		}
		if st, err := limiterOf(b).StateOf(t.Context(), b.bucketKey()); err != nil || a != b && st.Level != 3 || a == b && st.Level != 0 {
			t.Fatalf("%+v after the reset of %+v: %+v, %v", b, a, st, err)
		}
		if a.prefix != b.prefix && fmt.Sprint(keysOf(limiterOf(a), "")) != "[]" {
			t.Fatalf("the Limiter with prefix %q lists a bucket of %+v", a.prefix, b)
		}
	})
}
