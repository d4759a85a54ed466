package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/brimgo/brim/cmd/brim/internal/trace"
	"github.com/brimgo/brim/store"
)

func read1(t *testing.T, text string) *trace.Reader {
	t.Helper()
	r, err := trace.NewReader(strings.NewReader(text), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRun(t *testing.T) {
	for _, tc := range []struct {
		name, why, log                       string
		limit                                store.Limit
		requests, accepted, refused, invalid int64
	}{
		{
			name: "leak", why: "each line is decided at its own time",
			log:   "time,key\n100,a\n100,a\n101,a\n101,a\n",
			limit: store.Limit{Capacity: 1, LeakRate: 1}, requests: 4, accepted: 2, refused: 2,
		},
		{
			name: "backwards", why: "a line that is older than the last line of its key must not turn the time back, so that b's unit at 1000 leaks again",
			log:   "time,key\n1000,b\n10,b\n1000,b\n1001,b\n",
			limit: store.Limit{Capacity: 1, LeakRate: 1}, requests: 4, accepted: 2, refused: 2,
		},
		{
			name: "other keys", why: "each key has its own time, so an old line of another key is decided at its time",
			log:   "time,key\n10,a\n100000,b\n11,a\n12,a\n",
			limit: store.Limit{Capacity: 1, LeakRate: 1}, requests: 4, accepted: 4,
		},
		{
			name: "jump", why: "the store must accept the time of a line that jumps far ahead",
			log:   "time,key\n200000000000,a\n10,a\n11,a\n",
			limit: store.Limit{Capacity: 1, LeakRate: 1}, requests: 3, accepted: 1, refused: 2,
		},
		{
			name: "costs", why: "a cost of 0 always fits, and one above the capacity never",
			log:   "cost,key,time\n5,a,1\n0,a,1\n6,a,2\n0.5,b,2\n",
			limit: store.Limit{Capacity: 5, LeakRate: 1}, requests: 4, accepted: 3, refused: 1,
		},
		{
			name: "keys", why: "lines with invalid keys count as unparsed, not as refused",
			log:   "time,key\n1,\n1," + strings.Repeat("k", 512) + "\n1,a\x00b\n1,a\n",
			limit: store.Limit{Capacity: 5, LeakRate: 1}, requests: 1, accepted: 1, invalid: 3,
		},
		{
			name: "rounding", why: "a cost that rounding would lose is an invalid line",
			log:   "time,key,cost\n1,a,1e-300\n1,a,1\n",
			limit: store.Limit{Capacity: 5, LeakRate: 1}, requests: 1, accepted: 1, invalid: 1,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rep, err := Run(t.Context(), read1(t, tc.log), inMemory(t, tc.limit))
			if err != nil {
				t.Fatal(err)
			}
			got := [4]int64{rep.Requests, rep.Accepted, rep.Refused, rep.Unparsed}
			if want := [4]int64{tc.requests, tc.accepted, tc.refused, tc.invalid}; got != want {
				t.Errorf("%s: requests, accepted, refused, unparsed are %v; want %v (%v)", tc.why, got, want, rep.Bad)
			}
		})
	}
}

func TestTopRefused(t *testing.T) {
	log := "time,key\n" + strings.Repeat("1,c\n", 4) + strings.Repeat("1,b\n", 3) + strings.Repeat("1,a\n", 3) + "1,d\n"
	o := inMemory(t, store.Limit{Capacity: 1})
	o.Top = 2
	rep, err := Run(t.Context(), read1(t, log), o)
	if err != nil {
		t.Fatal(err)
	}
	want := []Refused{{Key: "c", Accepted: 1, Refused: 3}, {Key: "a", Accepted: 1, Refused: 2}}
	if !reflect.DeepEqual(rep.TopRefused, want) {
		t.Errorf("the most refused keys come first, equal ones by key, all without the prefix: got %v, want %v",
			rep.TopRefused, want)
	}
	if rep.Keys != 4 {
		t.Errorf("%d keys; want 4, because keys without refusals count, too", rep.Keys)
	}
}

func TestNoRequests(t *testing.T) {
	rep, err := Run(t.Context(), read1(t, "hello\n\nworld\n"), inMemory(t, store.Limit{Capacity: 1}))
	if !errors.Is(err, ErrNoRequests) || rep.Unparsed != 2 || len(rep.Bad) != 2 || rep.Bad[1].Line != 3 {
		t.Errorf("got %v and %+v; want ErrNoRequests and lines 1 and 3", err, rep)
	}
	if rep.TopRefused == nil {
		t.Error("TopRefused is nil, which JSON writes as null and not as []")
	}
	rep, err = Run(t.Context(), read1(t, strings.Repeat("x\n", 3*chunk)+"1\n"), inMemory(t, store.Limit{Capacity: 1}))
	if !errors.Is(err, ErrNoRequests) || rep.Unparsed != 3*chunk+1 || len(rep.Bad) != named {
		t.Errorf("got %v, %d unparsed, %d named; want all of them counted and the first %d named", err,
			rep.Unparsed, len(rep.Bad), named)
	}
}

// A backend runs the function of an update again if the first commit fails. The lines must count
// once.
func TestUpdateThatRunsTwice(t *testing.T) {
	o := inMemory(t, store.Limit{Capacity: 5, LeakRate: 0.1})
	updates := 0
	o.Update = func(_ context.Context, decide func(store.Store) error) error {
		updates++
		if err := decide(forgetful{o.Store}); err != nil {
			return err
		}
		return decide(o.Store)
	}
	rep, err := Run(t.Context(), open(t, trace.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Accepted != 27846 || rep.Refused != 3123 {
		t.Errorf("accepted %d, refused %d; want 27846 and 3123", rep.Accepted, rep.Refused)
	}
	if want := 30969/chunk + 1; updates != want {
		t.Errorf("%d updates; want %d: many lines are decided per commit", updates, want)
	}
}

// forgetful accepts everything and keeps nothing, like a transaction that is rolled back.
type forgetful struct{ store.Store }

func (forgetful) Fill(context.Context, store.Op) (store.State, error) {
	return store.State{Accepted: true}, nil
}

func TestErrorsEndTheReplay(t *testing.T) {
	broken := errors.New("broken")
	o := inMemory(t, store.Limit{Capacity: 1})
	o.Update = func(context.Context, func(store.Store) error) error { return broken }
	if _, err := Run(t.Context(), read1(t, "time,key\n1,a\n"), o); !errors.Is(err, broken) {
		t.Errorf("a store that fails: got %v", err)
	}
	r, err := trace.NewReader(io.MultiReader(strings.NewReader("time,key\n1,a\n"), failing{broken}), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), r, inMemory(t, store.Limit{Capacity: 1})); !errors.Is(err, broken) {
		t.Errorf("a log that fails: got %v", err)
	}
	_, err = Run(t.Context(), read1(t, "time,key\n1,a\n"), inMemory(t, store.Limit{}))
	if !errors.Is(err, store.ErrInvalidLimit) {
		t.Errorf("no limit: got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// A replay whose input never ends, for instance from a terminal, ends on an interrupt.
func TestInterrupt(t *testing.T) {
	in, out := io.Pipe()
	defer out.Close()
	go fmt.Fprint(out, "time,key\n1,a\n")
	r, err := trace.NewReader(in, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := Run(ctx, r, inMemory(t, store.Limit{Capacity: 1})); !errors.Is(err, cause) {
		t.Errorf("got %v; want %v", err, cause)
	}
}
