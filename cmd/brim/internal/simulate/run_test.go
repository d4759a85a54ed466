package simulate_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
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
			log:   "time,key\n90000000000,a\n10,a\n11,a\n",
			limit: store.Limit{Capacity: 1, LeakRate: 1}, requests: 3, accepted: 1, refused: 2,
		},
		{
			name: "costs", why: "a cost of 0 always fits, and one above the capacity never",
			log:   "cost,key,time\n5,a,1\n0,a,1\n6,a,2\n0.5,b,2\n",
			limit: store.Limit{Capacity: 5, LeakRate: 1}, requests: 4, accepted: 3, refused: 1,
		},
		{
			name: "keys", why: "lines with invalid keys count as unparsed, not as refused",
			log:   "time,key\n1,\n1," + strings.Repeat("k", 513) + "\n1,a\x00b\n1,a\n",
			limit: store.Limit{Capacity: 5, LeakRate: 1}, requests: 1, accepted: 1, invalid: 3,
		},
		{
			name: "rounding", why: "a cost that rounding would lose is an invalid line",
			log:   "time,key,cost\n1,a,1e-300\n1,a,1\n",
			limit: store.Limit{Capacity: 5, LeakRate: 1}, requests: 1, accepted: 1, invalid: 1,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for where, o := range everywhere(t, tc.limit) {
				rep, err := simulate.Run(t.Context(), read1(t, tc.log), o)
				if err != nil {
					t.Fatal(err)
				}
				got := [4]int64{rep.Requests, rep.Outcomes[0].Accepted, rep.Outcomes[0].Refused, rep.Unparsed}
				if want := [4]int64{tc.requests, tc.accepted, tc.refused, tc.invalid}; got != want {
					t.Errorf("%s, %s: requests, accepted, refused, unparsed are %v; want %v (%v)", where, tc.why,
						got, want, rep.Bad)
				}
			}
		})
	}
}

func TestTopRefused(t *testing.T) {
	log := "time,key\n" + strings.Repeat("1,c\n", 4) + strings.Repeat("1,b\n", 3) + strings.Repeat("1,a\n", 3) + "1,d\n"
	o := inStore(t, store.Limit{Capacity: 1})
	o.Top = 2
	rep, err := simulate.Run(t.Context(), read1(t, log), o)
	if err != nil {
		t.Fatal(err)
	}
	want := []simulate.Refused{{Key: "c", Accepted: 1, Refused: 3}, {Key: "a", Accepted: 1, Refused: 2}}
	if !reflect.DeepEqual(rep.Outcomes[0].TopRefused, want) {
		t.Errorf("the most refused keys come first, equal ones by key, all without the prefix: got %v, want %v",
			rep.Outcomes[0].TopRefused, want)
	}
	if rep.Keys != 4 {
		t.Errorf("%d keys; want 4, because keys without refusals count, too", rep.Keys)
	}
}

// A backend runs the function of an update again if the first commit fails. The lines must count
// once.
func TestUpdateThatRunsTwice(t *testing.T) {
	o := inStore(t, store.Limit{Capacity: 5, LeakRate: 0.1})
	o.Store.Update = func(_ context.Context, decide func(store.Store) error) error {
		if err := decide(forgetful{o.Store.Store}); err != nil {
			return err
		}
		return decide(o.Store.Store)
	}
	rep, err := simulate.Run(t.Context(), open(t, trace.Options{}), o)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Outcomes[0].Accepted != 27846 || rep.Outcomes[0].Refused != 3123 {
		t.Errorf("accepted %d, refused %d; want 27846 and 3123", rep.Outcomes[0].Accepted, rep.Outcomes[0].Refused)
	}
}

// forgetful accepts everything and keeps nothing, like a transaction that is rolled back.
type forgetful struct{ store.Store }

func (forgetful) Fill(context.Context, store.Op) (store.State, error) {
	return store.State{Accepted: true}, nil
}

func TestErrorsEndTheReplay(t *testing.T) {
	broken := errors.New("broken")
	o := inStore(t, store.Limit{Capacity: 1})
	o.Store.Update = func(context.Context, func(store.Store) error) error { return broken }
	if _, err := simulate.Run(t.Context(), read1(t, "time,key\n1,a\n"), o); !errors.Is(err, broken) {
		t.Errorf("a store that fails: got %v", err)
	}
	r, err := trace.NewReader(io.MultiReader(strings.NewReader("time,key\n1,a\n"), failing{broken}), trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := simulate.Run(t.Context(), r, inStore(t, store.Limit{Capacity: 1})); !errors.Is(err, broken) {
		t.Errorf("a log that fails: got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
