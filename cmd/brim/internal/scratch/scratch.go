// Package scratch gives a replay or a benchmark its own keys in a store that may contain live
// buckets, and removes them afterwards.
package scratch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brimgo/brim/store"
)

// batch is the number of keys that are removed at once. A commit for each key would take hours.
// One commit for all keys would keep other callers out for too long.
const batch = 4096

// removeTimeout bounds the time of the removal, which goes on after the context of the work has
// ended.
const removeTimeout = time.Minute

// Prefix returns a prefix that begins with name, and with which no key in s begins.
func Prefix(ctx context.Context, s store.Store, name string) (string, error) {
	for range 10 {
		prefix := name + "/" + rand.Text()[:10] + "/"
		taken := false
		err := s.Visit(ctx, prefix, func(store.Entry) bool { taken = true; return false })
		if err != nil {
			return "", err
		}
		if !taken {
			return prefix, nil
		}
	}
	return "", errors.New("ten random prefixes are all in use in the store")
}

// Remove deletes the keys in s that begin with prefix. It continues for at most a minute after
// ctx has ended.
func Remove(ctx context.Context, s store.Store, prefix string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	remove := func() error {
		var keys []string
		err := s.Visit(ctx, prefix, func(e store.Entry) bool { keys = append(keys, e.Key); return true })
		for chunk := range slices.Chunk(keys, batch) {
			err = errors.Join(err, s.Delete(ctx, chunk...))
		}
		return err
	}
	if err := remove(); err != nil {
		return fmt.Errorf("keys that begin with %s stay in the store: %w", prefix, err)
	}
	return nil
}
