// Package scratch gives a replay or a benchmark keys of its own in a store that may hold live buckets, and removes them.
package scratch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/brimgo/brim/store"
)

// batch is how many keys are removed at once: a commit for each would take hours, one for all would keep other callers out.
const batch = 4096

// removeTimeout bounds the removal, which must not end with the context that ended the work.
const removeTimeout = time.Minute

// Prefix returns a prefix that begins with name and that no key in s has.
func Prefix(ctx context.Context, s store.Store, name string) (string, error) {
	for range 10 {
		prefix := name + "/" + rand.Text()[:10] + "/"
		taken, err := s.Scan(ctx, prefix, "", 1)
		if err != nil {
			return "", err
		}
		if len(taken) == 0 {
			return prefix, nil
		}
	}
	return "", errors.New("no prefix for keys of its own is free in the store")
}

// Remove deletes the keys in s that start with prefix. It goes on if ctx is done, for a minute at most.
func Remove(ctx context.Context, s store.Store, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	for {
		entries, err := s.Scan(ctx, prefix, "", batch)
		if err == nil && len(entries) > 0 {
			keys := make([]string, len(entries))
			for i, e := range entries {
				keys[i] = e.Key
			}
			err = s.Delete(ctx, keys...)
		}
		if err != nil {
			return fmt.Errorf("keys that begin with %s are left in the store: %w", prefix, err)
		}
		if len(entries) < batch {
			return nil
		}
	}
}
