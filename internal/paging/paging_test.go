package paging_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// pages is a store of n buckets that counts the pages.
type pages struct {
	n, asked int
	fails    error // of the second page
	damaged  bool  // each page leaves out a damaged bucket
}

func (p *pages) page(after string, limit int) (page []store.Entry, err error) {
	if p.asked++; p.asked == 2 && p.fails != nil {
		return nil, p.fails
	}
	next := 0
	if after != "" {
		if _, err := fmt.Sscanf(after, "p%d", &next); err != nil {
			return nil, err
		}
		next++
	}
	for ; next < p.n && len(page) < limit; next++ {
		page = append(page, store.Entry{Key: fmt.Sprintf("p%09d", next)})
	}
	if p.damaged {
		err = store.ErrCorrupt
	}
	return page, err
}

func TestVisit(t *testing.T) {
	lost := errors.New("page lost")
	for _, c := range []struct {
		why                string
		n, stop            int
		fails, want        error
		damaged            bool
		wantSeen, wantAsks int
	}{
		{why: "an empty store has one page", wantAsks: 1},
		{why: "a short page is the last", n: 999, wantSeen: 999, wantAsks: 1},
		{why: "a full page may be the last", n: 1000, wantSeen: 1000, wantAsks: 2},
		{why: "each bucket once", n: 2500, wantSeen: 2500, wantAsks: 3},
		{why: "f ends the visit", n: 2500, stop: 3, wantSeen: 3, wantAsks: 1},
		{why: "a page that fails ends the visit", n: 2500, fails: lost, want: lost, wantSeen: 1000, wantAsks: 2},
		{
			why: "damage is told after all other buckets", n: 2500, damaged: true, want: store.ErrCorrupt,
			wantSeen: 2500, wantAsks: 3,
		},
		{why: "f ends a visit of a damaged store", n: 9, damaged: true, stop: 1, wantSeen: 1, wantAsks: 1},
	} {
		p := &pages{n: c.n, fails: c.fails, damaged: c.damaged}
		seen := 0
		err := paging.Visit(p.page, func(e store.Entry) bool {
			if want := fmt.Sprintf("p%09d", seen); e.Key != want {
				t.Fatalf("bucket %d of %d is %q, want %q", seen, c.n, e.Key, want)
			}
			seen++
			return seen != c.stop
		})
		if !errors.Is(err, c.want) || seen != c.wantSeen || p.asked != c.wantAsks {
			t.Errorf("visited %d of %d buckets in %d pages, %v; want %d in %d, %v\nwhy: %s",
				seen, c.n, p.asked, err, c.wantSeen, c.wantAsks, c.want, c.why)
		}
	}
}
