package store

import (
	"cmp"
	"context"
	"errors"
)

// Visitor is a capability that a [Store] may have beside its methods. A store that keeps its
// buckets in no order has it, because each page of its Scan costs a pass over all buckets. So has
// a wrapper, which asks the store that it wraps. Call [Visit], which works with every store.
type Visitor interface {
	// Visit calls f for each bucket whose key starts with prefix, with its state by the limit
	// last written, until f returns false. It passes over the store once, in any order.
	//
	// A bucket that exists from the beginning of Visit to its end is visited exactly once. A
	// bucket that is created or removed meanwhile may be visited or not.
	//
	// Visit holds no lock and no snapshot of the store for more than a millisecond, and none
	// while f runs. So f may take its time, and it may call the store. f runs on the goroutine of
	// the caller. If ctx ends, Visit returns the context's error; after f has returned false, it
	// returns nil. If single buckets are damaged, Visit visits all others first, and then returns
	// [ErrCorrupt].
	Visit(ctx context.Context, prefix string, f func(Entry) bool) error
}

// visitPage is the number of buckets that Visit reads at a time from a store that is no Visitor. A
// page is read in about a millisecond.
const visitPage = 1000

// Visit calls f for each bucket of s whose key starts with prefix, with its state by the limit last
// written, until f returns false. The order is that of s, see [Visitor]. If s is no Visitor, Visit
// reads it by [Store.Scan], page by page.
func Visit(ctx context.Context, s Store, prefix string, f func(Entry) bool) error {
	if v, ok := s.(Visitor); ok {
		return v.Visit(ctx, prefix, f)
	}
	var damage error
	for after := ""; ; {
		page, err := s.Scan(ctx, prefix, after, visitPage)
		switch {
		case errors.Is(err, ErrCorrupt):
			damage = cmp.Or(damage, err)
		case err != nil:
			return err
		}
		for _, e := range page {
			if !f(e) {
				return nil
			}
		}
		if len(page) < visitPage {
			return damage
		}
		after = page[len(page)-1].Key
	}
}
