package brim_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

// list collects the keys and levels of a listing.
func list(t *testing.T, l *brim.Limiter, prefix string) (entries []string) {
	t.Helper()
	for e, err := range l.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, fmt.Sprintf("%s %v/%v", e.Key, e.Level, e.Capacity))
	}
	return entries
}

func TestMaintain(t *testing.T) {
	ctx := t.Context()
	l, s, clock := open(t, nil)
	app := brim.New(s, &brim.Options{Prefix: "app:"})
	wide := brim.Limit{Capacity: 1000, LeakRate: 0}
	must(t)(l.TryFillup(ctx, tens.For("b"), 4))
	must(t)(l.TryFillup(ctx, tens.For("ab"), 3))
	must(t)(app.TryFillup(ctx, tens.For("b"), 2))
	must(t)(app.TryFillup(ctx, wide.For("a"), 1))

	for _, test := range []struct {
		name   string
		l      *brim.Limiter
		prefix string
		want   []string
		why    string
	}{
		{"all", l, "", []string{"ab 3/10", "app:a 1/1000", "app:b 2/10", "b 4/10"}, "in byte order of key, by the limit last written"},
		{"by prefix", l, "a", []string{"ab 3/10", "app:a 1/1000", "app:b 2/10"}, "a prefix is bytes, not words"},
		{"own", app, "", []string{"a 1/1000", "b 2/10"}, "a Limiter with a prefix sees its own buckets, without it"},
		{"own by prefix", app, "b", []string{"b 2/10"}, "both prefixes hold"},
		{"none", l, "c", nil, "no bucket has it"},
	} {
		if got := list(t, test.l, test.prefix); !slices.Equal(got, test.want) {
			t.Errorf("list %s = %v; want %v: %s", test.name, got, test.want, test.why)
		}
	}

	if err := app.Reset(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	if got, want := list(t, l, ""), []string{"ab 3/10", "app:a 1/1000", "b 4/10"}; !slices.Equal(got, want) {
		t.Errorf("after Reset %v; want %v: one bucket, of the own prefix", got, want)
	}
	if err := app.Reset(ctx, "b"); err != nil {
		t.Errorf("Reset of no bucket: %v; want nothing to do", err)
	}

	if n, err := l.Prune(ctx); n != 0 || err != nil {
		t.Errorf("Prune removed %d, %v; want none: they are not empty", n, err)
	}
	clock.Advance(time.Hour)
	if n, err := l.Prune(ctx); n != 2 || err != nil {
		t.Errorf("Prune removed %d, %v; want the 2 that have leaked", n, err)
	}
	if got, want := list(t, l, ""), []string{"app:a 1/1000"}; !slices.Equal(got, want) {
		t.Errorf("after Prune %v; want %v: what does not leak stays", got, want)
	}
}

// pages is a store that holds n buckets and counts how often it is asked for a page.
type pages struct {
	broken
	n, asked int
}

func (p *pages) Scan(_ context.Context, _, after string, limit int) (page []store.Entry, err error) {
	p.asked++
	next := 0
	if after != "" {
		if _, err := fmt.Sscanf(after, "%d", &next); err != nil {
			return nil, err
		}
		next++
	}
	for ; next < p.n && len(page) < limit; next++ {
		page = append(page, store.Entry{Key: fmt.Sprintf("%09d", next)})
	}
	return page, nil
}

func TestListPages(t *testing.T) {
	for _, n := range []int{0, 1, 9_999, 10_000, 10_001, 25_000} {
		p := &pages{n: n}
		seen := 0
		for e, err := range brim.New(p, nil).List(t.Context(), "") {
			if want := fmt.Sprintf("%09d", seen); err != nil || e.Key != want {
				t.Fatalf("entry %d of %d is %q, %v; want %q: each once, in order, over pages", seen, n, e.Key, err, want)
			}
			seen++
		}
		if seen != n {
			t.Errorf("listed %d of %d buckets", seen, n)
		}
	}
	p := &pages{n: 25_000}
	for _, err := range brim.New(p, nil).List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if p.asked != 1 {
		t.Errorf("a caller who stopped at the first bucket cost %d pages; want 1", p.asked)
	}
}
