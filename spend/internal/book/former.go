package book

import (
	"crypto/sha256"
	"encoding/hex"
)

// FormerID returns the ID of the request whose account is the one that once had a key, and has
// moved. No ID of a caller has a control character. The ID has a digest of the key, because an
// account may have moved so that its old name is forgotten.
func FormerID(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "\x01" + hex.EncodeToString(sum[:])
}
