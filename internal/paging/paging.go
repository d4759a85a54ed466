// Package paging visits the buckets of a store that reads them in pages, in the order of their
// keys.
package paging

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/brimgo/brim/store"
)

// size is the number of buckets of a page. A page is read in about a millisecond.
const size = 1000

// Visit calls f for each bucket, until f returns false. Page returns up to limit buckets whose keys
// are greater than after, in order; fewer mean that no more follow. A page with [store.ErrCorrupt]
// has all buckets that can be read. Visit returns that error after all other buckets.
func Visit(page func(after string, limit int) ([]store.Entry, error), f func(store.Entry) bool) error {
	var damage error
	for after := ""; ; {
		entries, err := page(after, size)
		switch {
		case errors.Is(err, store.ErrCorrupt):
			damage = cmp.Or(damage, err)
		case err != nil:
			return err
		}
		for _, e := range entries {
			if !f(e) {
				return nil
			}
		}
		if len(entries) < size {
			return damage
		}
		after = entries[len(entries)-1].Key
	}
}

// All returns the buckets of s whose keys start with prefix, in byte order of key.
func All(ctx context.Context, s store.Store, prefix string) ([]store.Entry, error) {
	var all []store.Entry
	err := s.Visit(ctx, prefix, func(e store.Entry) bool { all = append(all, e); return true })
	slices.SortFunc(all, func(a, b store.Entry) int { return strings.Compare(a.Key, b.Key) })
	return all, err
}
