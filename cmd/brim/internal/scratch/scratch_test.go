package scratch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

func TestPrefixAndRemove(t *testing.T) {
	s := memory.New(nil)
	defer s.Close()
	prefix, err := Prefix(t.Context(), s, "work")
	if err != nil || !strings.HasPrefix(prefix, "work/") {
		t.Fatalf("prefix %q, %v", prefix, err)
	}
	fill := func(key string) {
		if _, err := s.Fill(t.Context(), store.Op{Bucket: store.Limit{Capacity: 1}.For(key), Amount: 1}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2*batch + 1 {
		fill(fmt.Sprint(prefix, i))
	}
	fill("work/live")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the removal must also work after an interrupt
	if err := Remove(ctx, s, prefix); err != nil {
		t.Fatal(err)
	}
	left, err := paging.All(t.Context(), s, "")
	if err != nil || len(left) != 1 || left[0].Key != "work/live" {
		t.Errorf("%v, %v stay; want the live bucket alone", left, err)
	}
}

// taken is a store in which every prefix is in use, or which fails.
type taken struct {
	store.Store
	err error
}

func (s taken) Visit(_ context.Context, _ string, f func(store.Entry) bool) error {
	f(store.Entry{Key: "k"})
	return s.err
}

func (s taken) Delete(context.Context, ...string) error { return s.err }

func TestFailures(t *testing.T) {
	if prefix, err := Prefix(t.Context(), taken{}, "work"); err == nil {
		t.Errorf("got %q, which is in use", prefix)
	}
	broken := errors.New("broken")
	if _, err := Prefix(t.Context(), taken{err: broken}, "work"); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := Remove(t.Context(), taken{err: broken}, "work/x/"); !errors.Is(err, broken) ||
		!strings.Contains(err.Error(), "work/x/") {
		t.Errorf("got %v; want the prefix of the remaining keys, and the cause", err)
	}
}
