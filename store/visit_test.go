package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/brimgo/brim/store"
)

// pages is a store of n buckets that has Scan alone, and counts the pages.
type pages struct {
	store.Store
	n, asked int
	fails    error // of the second page
}

func (p *pages) Scan(_ context.Context, prefix, after string, limit int) (page []store.Entry, err error) {
	if p.asked++; p.asked == 2 && p.fails != nil {
		return nil, p.fails
	}
	next := 0
	if after != "" {
		if _, err := fmt.Sscanf(after, prefix+"%d", &next); err != nil {
			return nil, err
		}
		next++
	}
	for ; next < p.n && len(page) < limit; next++ {
		page = append(page, store.Entry{Key: fmt.Sprintf("%s%09d", prefix, next)})
	}
	return page, nil
}

// visitor is a pages that is a Visitor.
type visitor struct{ pages }

func (*visitor) Visit(_ context.Context, prefix string, f func(store.Entry) bool) error {
	f(store.Entry{Key: prefix + "own"})
	return nil
}

func TestVisit(t *testing.T) {
	for _, n := range []int{0, 1, 999, 1000, 1001, 2500} {
		p := &pages{n: n}
		seen := 0
		err := store.Visit(t.Context(), p, "p", func(e store.Entry) bool {
			if want := fmt.Sprintf("p%09d", seen); e.Key != want {
				t.Fatalf("bucket %d of %d is %q, want %q: each bucket once", seen, n, e.Key, want)
			}
			seen++
			return true
		})
		if err != nil || seen != n || p.asked != n/1000+1 {
			t.Errorf("visited %d of %d buckets in %d pages, %v; want %d pages", seen, n, p.asked, err, n/1000+1)
		}
	}
}

func TestVisitStops(t *testing.T) {
	p := &pages{n: 2500}
	seen := 0
	err := store.Visit(t.Context(), p, "", func(store.Entry) bool { seen++; return seen < 3 })
	if err != nil || seen != 3 || p.asked != 1 {
		t.Errorf("visited %d buckets in %d pages, %v; want 3 in one page, because f returned false", seen, p.asked, err)
	}
	fails := errors.New("page lost")
	p = &pages{n: 2500, fails: fails}
	seen = 0
	err = store.Visit(t.Context(), p, "", func(store.Entry) bool { seen++; return true })
	if !errors.Is(err, fails) || seen != 1000 {
		t.Errorf("visited %d buckets, %v; want the first page and the error of the second", seen, err)
	}
}

func TestVisitAsksVisitor(t *testing.T) {
	v := &visitor{}
	var keys []string
	err := store.Visit(t.Context(), v, "p/", func(e store.Entry) bool { keys = append(keys, e.Key); return true })
	if err != nil || !slices.Equal(keys, []string{"p/own"}) || v.asked != 0 {
		t.Errorf("visited %q with %d pages of Scan, %v; want the store's own Visit", keys, v.asked, err)
	}
}

// damaged is a store of n buckets. Each of its pages leaves out a damaged bucket.
type damaged struct{ pages }

func (d *damaged) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Entry, error) {
	page, err := d.pages.Scan(ctx, prefix, after, limit)
	return page, errors.Join(err, store.ErrCorrupt)
}

// TestVisitDamaged: all buckets but the damaged ones are visited, and then the error is returned.
func TestVisitDamaged(t *testing.T) {
	seen := 0
	err := store.Visit(t.Context(), &damaged{pages{n: 2500}}, "p", func(store.Entry) bool { seen++; return true })
	if seen != 2500 || !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("visited %d buckets of 2500, %v; want all and ErrCorrupt", seen, err)
	}
	if err := store.Visit(t.Context(), &damaged{pages{n: 9}}, "p", func(store.Entry) bool { return false }); err != nil {
		t.Errorf("a visit that was ended: %v", err)
	}
}
