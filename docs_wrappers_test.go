package brim_test

import (
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/store"
)

// The documentation must not promise more of package local than it does. Each case shows a
// limit of a wrapper, and names the sentence that admits it.
func TestDocsLimitsOfWrappers(t *testing.T) {
	busy := brim.Limit{Capacity: 100_000, LeakRate: 1000}.For("busy")
	leased := func(t *testing.T, s store.Store, clock *brimtest.Clock) store.Store {
		t.Helper()
		w, err := local.Leases(s, &local.LeasesOptions{Clock: clock.Now, Ahead: 100 * time.Millisecond})
		noError(t, err)
		return w
	}
	// estimates returns the numbers of units that were accepted and refused from memory in a
	// second of calls.
	estimates := func(t *testing.T, s store.Store, clock *brimtest.Clock) (accepted, refused int) {
		t.Helper()
		for range 1000 {
			clock.Advance(time.Millisecond)
			st, err := s.Fill(t.Context(), store.Op{Bucket: busy, Amount: 1})
			switch {
			case err != nil:
				t.Fatal(err)
			case st.Estimate && st.Accepted:
				accepted++
			case st.Estimate:
				refused++
			}
		}
		return accepted, refused
	}
	for _, c := range []struct {
		name, page, sentence string
		show                 func(t *testing.T, s store.Store, clock *brimtest.Clock)
	}{
		{
			name: "a lease serves a bucket with room alone",
			page: "README.md", sentence: "serves a busy key from memory while its bucket is less than a quarter full",
			show: func(t *testing.T, s store.Store, clock *brimtest.Clock) {
				w := leased(t, s, clock)
				if accepted, _ := estimates(t, w, clock); accepted == 0 {
					t.Error("a bucket with room: no call was served from memory")
				}
				fillOne(t, s, store.Op{Bucket: busy, Amount: 50_000, Mode: store.Always})
				clock.Advance(2 * time.Second) // the allotments lapse
				if accepted, refused := estimates(t, w, clock); accepted+refused > 0 {
					t.Errorf("half a bucket: %d calls were served from memory; want none", accepted+refused)
				}
			},
		},
		{
			name: "a lease accepts in a bucket that another process has blocked",
			page: "README.md", sentence: "after another process has blocked or reset the bucket",
			show: func(t *testing.T, s store.Store, clock *brimtest.Clock) {
				w := leased(t, s, clock)
				estimates(t, w, clock)
				if st := fillOne(t, s, store.Op{Bucket: busy, Amount: busy.Capacity, BlockFor: time.Hour}); st.BlockedUntil.IsZero() {
					t.Fatalf("%+v; want a blocked bucket", st)
				}
				if st := fillOne(t, w, store.Op{Bucket: busy, Amount: 1}); !st.Accepted {
					t.Errorf("%+v; the allotment is used up, so nothing is shown", st)
				}
				if st := fillOne(t, s, store.Op{Bucket: busy, Amount: 1}); st.Accepted {
					t.Errorf("%+v; want a refusal of the store", st)
				}
			},
		},
		{
			name: "a remembered refusal hides room",
			page: "README.md", sentence: "may refuse a call that the store would accept",
			show: func(t *testing.T, s store.Store, clock *brimtest.Clock) {
				w, err := local.Refusals(s, nil)
				noError(t, err)
				fillOne(t, w, store.Op{Bucket: busy, Amount: busy.Capacity})
				fillOne(t, w, store.Op{Bucket: busy, Amount: 1000})
				noError(t, s.Delete(t.Context(), busy.Key))
				if st := fillOne(t, w, store.Op{Bucket: busy, Amount: 1000}); st.Accepted || !st.Estimate {
					t.Errorf("%+v; want a refusal from memory", st)
				}
				if st := fillOne(t, w, store.Op{Bucket: busy, Amount: 1000, BlockFor: time.Second}); !st.Accepted {
					t.Errorf("%+v; want a call with a penalty decided by the store", st)
				}
			},
		},
		{
			name: "refusals accept nothing from memory",
			page: "docs/backends.md", sentence: "It never accepts from memory",
			show: func(t *testing.T, s store.Store, clock *brimtest.Clock) {
				w, err := local.Refusals(s, nil)
				noError(t, err)
				if accepted, _ := estimates(t, w, clock); accepted > 0 {
					t.Errorf("%d calls were accepted from memory; want none", accepted)
				}
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, s, clock := open(t, nil)
			c.show(t, s, clock)
			if text := strings.Join(strings.Fields(read(t, c.page)), " "); !strings.Contains(text, c.sentence) {
				t.Errorf("%s does not say %q", c.page, c.sentence)
			}
		})
	}
}

func fillOne(t *testing.T, s store.Store, op store.Op) store.State {
	t.Helper()
	st, err := s.Fill(t.Context(), op)
	noError(t, err)
	return st
}
