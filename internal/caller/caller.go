// Package clientkey makes the keys of clients' buckets, for limits of HTTP and gRPC alike: a client
// that comes by both has one bucket.
package clientkey

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"

	"github.com/brimgo/brim/store"
)

// maxLen is the length of the longest key that is stored as it is, in bytes. It leaves room for the
// Limiter's prefix.
const maxLen = store.MaxKeyLen / 2

// Storable replaces a key that no store can keep by its hash. Otherwise a client could make the
// store fail with such a key, and get past a limit that lets requests pass where the store fails.
func Storable(key string) string {
	if len(key) <= maxLen && store.ValidateKey(key) == nil {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Unknown is the key of all clients without an address.
const Unknown = "ip:unknown"

// OfAddress returns the key for an address: that of the address itself, or of its /64 network if it
// is an IPv6 address, since a client usually has all addresses of its /64.
func OfAddress(client netip.Addr) string {
	switch {
	case !client.IsValid():
		return Unknown
	case client.Is4():
		return "ip:" + client.String()
	}
	return "ip:" + netip.PrefixFrom(client, 64).Masked().String()
}
