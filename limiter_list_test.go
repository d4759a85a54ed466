package brim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

// list returns key, level and capacity of each bucket in a listing.
func list(t *testing.T, l *brim.Limiter, prefix string) (entries []string) {
	t.Helper()
	for e, err := range l.List(t.Context(), prefix) {
		noError(t, err)
		entries = append(entries, fmt.Sprintf("%s %v/%v", e.Key, e.Level, e.Capacity))
	}
	slices.Sort(entries) // a store in memory has no order
	return entries
}

func TestListResetPrune(t *testing.T) {
	ctx := t.Context()
	l, s, clock := open(t, nil)
	app := brim.New(s, &brim.Options{Prefix: "app:"})
	stored := brim.New(s, &brim.Options{AsStored: true})
	wide := brim.Limit{Capacity: 1000, LeakRate: 0}
	must(t)(l.TryFillup(ctx, tens.For("b"), 4))
	must(t)(l.TryFillup(ctx, tens.For("ab"), 3))
	must(t)(app.TryFillup(ctx, tens.For("b"), 2))
	must(t)(app.TryFillup(ctx, wide.For("a"), 1))
	must(t)(l.TryFillup(ctx, tens.For("@4:app:"), 5))
	must(t)(l.TryFillup(ctx, tens.For("@bob"), 6))
	must(t)(l.TryFillup(ctx, tens.For("app:b"), 7))

	for _, test := range []struct {
		name   string
		l      *brim.Limiter
		prefix string
		want   []string
		why    string
	}{
		{
			"all", l, "",
			[]string{"@4:app: 5/10", "@bob 6/10", "ab 3/10", "app:b 7/10", "b 4/10"},
			"the limit is that of the last write",
		},
		{"by prefix", l, "a", []string{"ab 3/10", "app:b 7/10"}, "a prefix matches bytes, not words"},
		{"by a mark", l, "@", []string{"@4:app: 5/10", "@bob 6/10"}, "a key may begin with the mark of names"},
		{
			"as stored", stored, "",
			[]string{"@4:app:a 1/1000", "@4:app:b 2/10", "@@4:app: 5/10", "@@bob 6/10", "ab 3/10", "app:b 7/10", "b 4/10"},
			"operators see all buckets by the store's names",
		},
		{"as stored, by prefix", stored, "@4:app:", []string{"@4:app:a 1/1000", "@4:app:b 2/10"}, "names have prefixes, too"},
		{
			"own prefix", app, "",
			[]string{"a 1/1000", "b 2/10"},
			"a Limiter with a prefix lists its own buckets, without the prefix",
		},
		{"own prefix and another", app, "b", []string{"b 2/10"}, "both prefixes apply"},
		{"no match", l, "c", nil, "no key has this prefix"},
	} {
		if got := list(t, test.l, test.prefix); !slices.Equal(got, test.want) {
			t.Errorf("%s: listed %v; want %v: %s", test.name, got, test.want, test.why)
		}
	}

	noError(t, app.Reset(ctx, "b"))
	for _, test := range []struct {
		l    *brim.Limiter
		want []string
	}{
		{app, []string{"a 1/1000"}}, {l, []string{"@4:app: 5/10", "@bob 6/10", "ab 3/10", "app:b 7/10", "b 4/10"}},
	} {
		if got := list(t, test.l, ""); !slices.Equal(got, test.want) {
			t.Errorf("after Reset: %v; want %v: Reset removes one bucket, of its own prefix", got, test.want)
		}
	}
	if err := app.Reset(ctx, "b"); err != nil {
		t.Errorf("Reset of a missing bucket: %v; want no error", err)
	}

	if n, err := l.Prune(ctx); n != 0 || err != nil {
		t.Errorf("Prune removed %d buckets, %v; want 0, because none is empty", n, err)
	}
	clock.Advance(time.Hour)
	if n, err := l.Prune(ctx); n != 5 || err != nil {
		t.Errorf("Prune removed %d buckets, %v; want the 5 that have leaked empty", n, err)
	}
	if got, want := list(t, stored, ""), []string{"@4:app:a 1/1000"}; !slices.Equal(got, want) {
		t.Errorf("after Prune: %v; want %v: a bucket that does not leak stays", got, want)
	}
}

// damaged is a store whose Visit leaves out damaged buckets.
type damaged struct{ store.Store }

func (d damaged) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	return errors.Join(d.Store.Visit(ctx, prefix, f), store.ErrCorrupt)
}

// TestListDamaged: List yields every bucket that can be read, and one error at the end.
func TestListDamaged(t *testing.T) {
	_, s, _ := open(t, nil)
	l := brim.New(damaged{s}, nil)
	const n = 10_001
	for i := range n {
		must(t)(l.TryFillup(t.Context(), tens.For(fmt.Sprintf("%05d", i)), 1))
	}
	seen, damage := 0, 0
	for _, err := range l.List(t.Context(), "") {
		switch {
		case err == nil && damage == 0:
			seen++
		case errors.Is(err, brim.ErrCorrupt):
			damage++
		default:
			t.Fatalf("after %d buckets and %d errors: %v", seen, damage, err)
		}
	}
	if seen != n || damage != 1 {
		t.Errorf("%d buckets and %d errors, want %d and 1", seen, damage, n)
	}
}
