// Package caller has the parts that limits of HTTP and gRPC share: the keys of their buckets,
// and whether they have left.
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

// Key returns the key of the bucket that a policy has for the caller with a key of the
// application's own. The name of the policy ends at the first colon, and a kind of three follows:
// "key", "hash" or "ip". So no two policies, no two keys, and no key and address, have the same
// bucket.
//
// A key that no store can keep is replaced by its hash. Otherwise a client could make the store fail
// with such a key, and get past a limit that lets requests pass where the store fails.
func Key(policy, key string) string {
	if len(key) <= maxKey && store.ValidateKey(key) == nil {
		return policy + ":key:" + key
	}
	sum := sha256.Sum256([]byte(key))
	return policy + ":hash:" + hex.EncodeToString(sum[:])
}

// AddressKey returns the key of the bucket that a policy has for a client's address: the address
// itself, or its /64 network if it is an IPv6 address, since a client usually has all addresses of
// its /64. All clients without an address share a bucket.
func AddressKey(policy string, client netip.Addr) string {
	text := "unknown"
	switch {
	case client.Is4():
		text = client.String()
	case client.IsValid():
		text = netip.PrefixFrom(client, 64).Masked().String()
	}
	return policy + ":ip:" + text
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
