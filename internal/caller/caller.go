// Package caller has the parts that limits of HTTP and gRPC share: the keys of their buckets,
// whether callers have left, the count of those whose outcome decides, and the waits before
// retries.
package caller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/brimgo/brim/store"
)

// maxName is the length of the longest name of a policy, and maxKey that of the longest key that is
// stored as it is, in bytes. Both together leave room for the Limiter's prefix.
const (
	maxName = 64
	maxKey  = store.MaxKeyLen / 2
)

// ValidateName returns an error unless name can be the name of a policy: 1 to 64 bytes of printable
// ASCII, which a structured field can carry (RFC 9651, section 3.3.3), without a colon, which ends
// the name in a key.
func ValidateName(name string) error {
	if name == "" {
		return errors.New("a policy has no name; its name keeps its buckets apart from those of other policies")
	}
	if len(name) > maxName {
		return fmt.Errorf("the name of a policy has %d bytes; it must have at most %d", len(name), maxName)
	}
	for i := range len(name) {
		if name[i] < ' ' || name[i] > '~' || name[i] == ':' {
			return fmt.Errorf("the name of a policy is %q; it must be printable ASCII without a colon", name)
		}
	}
	return nil
}

// Key returns the key of the bucket of a policy and a caller, whom the application names by key.
// The name of the policy ends at the first colon. One of three words follows: "key", "hash" or
// "ip". So no two policies share a bucket, nor two keys, nor a key and an address.
func Key(policy, key string) string { return policy + ":" + Storable(key) }

// Storable returns a key that every store can keep: "key:" and the key itself, or "hash:" and its
// hash if it is too long or not UTF-8. Otherwise a client could make the store fail with such a
// key, and get past a limit that lets requests pass where the store fails.
func Storable(key string) string {
	if len(key) <= maxKey && store.ValidateKey(key) == nil {
		return "key:" + key
	}
	sum := sha256.Sum256([]byte(key))
	return "hash:" + hex.EncodeToString(sum[:])
}

// AddressKey returns the key of the bucket of a policy and a client's address; see Address.
func AddressKey(policy string, client netip.Addr, bits int) string {
	return policy + ":ip:" + Address(client, bits)
}

// DefaultBits is the length of the prefix that is a client in IPv6, unless an option says
// otherwise. RFC 4291, section 2.5.4, leaves the 64 bits behind it to the client.
const DefaultBits = 64

// ValidateBits returns an error unless bits is the length of a prefix that can be a client, or 0
// for DefaultBits. Most providers give a customer 48 to 64 bits (RFC 6177); 32 bits are a provider.
func ValidateBits(bits int) error {
	if bits != 0 && (bits < 33 || bits > 128) {
		return fmt.Errorf("IPv6Prefix is %d; it must be from 33 to 128, or 0 for %d", bits, DefaultBits)
	}
	return nil
}

var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052, section 2.1
	sixToFour = netip.MustParsePrefix("2002::/16")    // RFC 3056, section 2
)

// Address writes a client's address: a whole IPv4 address, or the network of an IPv6 address whose
// prefix has so many bits, since a client usually has all addresses of its network. An IPv6 address
// that stands for an IPv4 address is written as that, and a link-local address whole, with its
// zone. All clients without an address are "unknown".
func Address(client netip.Addr, bits int) string {
	client = client.Unmap()
	switch b := client.As16(); {
	case !client.IsValid():
		return "unknown"
	case client.Is4(), client.IsLinkLocalUnicast():
		return client.String()
	case nat64.Contains(client):
		return netip.AddrFrom4([4]byte(b[12:])).String()
	case sixToFour.Contains(client):
		return netip.AddrFrom4([4]byte(b[2:])).String()
	}
	if bits == 0 {
		bits = DefaultBits
	}
	return netip.PrefixFrom(client.WithZone(""), bits).Masked().String()
}

// Left returns the error of a caller's own context if it has ended, and nil otherwise. The caller
// has then left, and an error of the store tells nothing about the store.
//
// A connection to the store can time out at the caller's deadline a moment before the context ends,
// so the deadline counts by itself.
func Left(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// Limiter is the Limiter of package brim, as Correct needs it.
type Limiter interface {
	Fillup(ctx context.Context, b store.Bucket, n float64) (store.State, error)
	Drain(ctx context.Context, b store.Bucket, n float64) (store.State, error)
}

// Charge is n units of a caller whose outcome decides whether they count.
type Charge struct {
	Bucket  store.Bucket
	N       float64
	At      time.Time     // of the charge, on the store's clock; zero if the bucket was only asked
	Began   time.Time     // not after the charge, on the clock of this process
	Timeout time.Duration // of a call to the store; 0 means none
}

// swift is the time that a store usually needs to give units back.
const swift = 10 * time.Millisecond

// Correct mends the bucket after the outcome. If the bucket was only asked, the caller counts, and
// Correct puts the units in. If the units are in, the caller does not count, and Correct gives them
// back. It does so also if ctx has ended.
//
// Of a charge, LeakRate times its age may have leaked, and all of it at the end of its period under
// a quota of the calendar, so Correct gives back the rest at most. However many charges the bucket
// holds, it is then never emptier than a bucket of the callers who count: it leaks no faster than
// that bucket, or than any one of the charges. If the store gave the rest back later than expected,
// more had leaked by then, and Correct puts those units in again.
func (c *Charge) Correct(ctx context.Context, l Limiter) error {
	ctx = context.WithoutCancel(ctx)
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	if c.At.IsZero() {
		_, err := l.Fillup(ctx, c.Bucket, c.N)
		return err
	}
	leaked := c.leaked(time.Since(c.Began) + swift)
	if !c.counts(c.N - leaked) {
		return nil
	}
	st, err := l.Drain(ctx, c.Bucket, c.N-leaked)
	if err != nil {
		return err
	}
	late := min(c.N, c.leaked(st.At.Sub(c.At))) - leaked
	if c.Bucket.Calendar() {
		late = min(late, st.Drained) // the next period may have begun, and have had less in it
	}
	if c.counts(late) {
		_, err = l.Fillup(ctx, c.Bucket, late)
	}
	return err
}

// leaked returns the units of the charge that may have leaked at that age.
func (c *Charge) leaked(age time.Duration) float64 {
	if !c.Bucket.Calendar() {
		return c.Bucket.LeakRate * age.Seconds()
	}
	if _, ends := c.Bucket.PeriodAt(c.At); c.At.Add(age).Before(ends) {
		return 0
	}
	return c.N
}

// counts reports whether n units are more than an error in rounding.
func (c *Charge) counts(n float64) bool { return n > 0 && c.Bucket.ValidateAmount(n) == nil }
