package bolt

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/internal/records"
	"github.com/brimgo/brim/store"
)

// TestAnswersDuringACommit: a call that puts nothing in, and a refusal of a bucket whose last
// answer was a refusal, do not wait for the commit under way. A call that changes the bucket
// does.
func TestAnswersDuringACommit(t *testing.T) {
	for _, without := range []bool{false, true} {
		t.Run(fmt.Sprintf("without a journal: %v", without), func(t *testing.T) {
			testAnswersDuringACommit(t, &Options{NoJournal: without})
		})
	}
}

// holdUp makes flushes wait until the caller calls the function that it returns.
func holdUp(t *testing.T, s *Store) (goOn func()) {
	t.Helper()
	must(t, s.db.Lock(t.Context()))
	return s.db.Unlock
}

func testAnswersDuringACommit(t *testing.T, o *Options) {
	synctest.Test(t, func(t *testing.T) {
		s := openTemp(t, o)
		small, large := store.Limit{Capacity: 2}, store.Limit{Capacity: 10}
		fill := func(o store.Op, want bool) {
			t.Helper()
			if st, err := s.Fill(t.Context(), o); err != nil || st.Accepted != want {
				t.Fatalf("fill: %+v, %v; want accepted %v", st, err, want)
			}
		}
		const refused, absent = "refused", "absent"
		accepted := refused // another place in the store's memory of refusals
		place := func(key string) uint64 { return s.refusals.Of(&store.Op{Bucket: small.For(key)}).Hash % records.Places }
		for i := 0; place(accepted) == place(refused); i++ {
			accepted = fmt.Sprint("accepted ", i)
		}
		for _, key := range []string{refused, accepted} {
			fill(op(small, key, 2, store.IfFits), true)
			fill(op(small, key, 1, store.IfFits), false)
		}
		fill(op(large, accepted, 1, store.IfFits), true)
		fill(op(small, refused, 1, store.Always), true) // an event changes no memory of refusals

		penalty := op(small, refused, 1, store.IfFits)
		penalty.BlockFor = time.Hour
		goOn := holdUp(t, s) // a commit is under way
		for _, c := range []struct {
			name     string
			op       store.Op
			accepted bool
			waits    bool
		}{
			{"nothing", op(small, accepted, 0, store.IfFits), true, false},
			{"nothing, into a bucket that was refused", op(small, refused, 0, store.IfFits), true, false},
			{"nothing, into no bucket", op(small, absent, 0, store.Clamp), true, false},
			{"a refusal after a refusal", op(small, refused, 1, store.IfFits), false, false},
			{"a hold, refused after a refusal", store.Op{Bucket: small.For(refused), Hold: 1}, false, false},
			{"a refusal after an acceptance", op(small, accepted, 1, store.IfFits), false, true},
			{"a fill that fits after a refusal", op(large, refused, 1, store.IfFits), true, true},
			{"a penalty", penalty, false, true},
			{"an event", op(small, refused, 1, store.Always), true, true},
			{"an event, clamped", op(small, refused, 1, store.Clamp), true, true},
			{"a drain", op(small, refused, -1, store.Always), true, true},
			{"a hold", store.Op{Bucket: large.For(accepted), Hold: 1}, true, true},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			st, err := s.Fill(ctx, c.op)
			cancel()
			switch waited := errors.Is(err, context.DeadlineExceeded); {
			case waited != c.waits:
				t.Errorf("%s: %+v, %v; want it to wait: %v", c.name, st, err, c.waits)
			case waited && errors.Is(err, store.ErrUnknownOutcome):
				t.Errorf("%s: error %v; the call was taken back", c.name, err)
			case !waited && (err != nil || st.Accepted != c.accepted):
				t.Errorf("%s: %+v, %v; want accepted %v", c.name, st, err, c.accepted)
			}
		}
		levelIs(t, s, refused, 3)
		if entries, err := paging.All(t.Context(), s, ""); err != nil || len(entries) != 2 {
			t.Errorf("scan: %+v, %v; want 2 buckets", entries, err)
		}
		goOn()
		levelIs(t, s, accepted, 3)
	})
}

// TestCloseWaitsForTheQueue: Close ends a store when the calls that have begun are answered, also
// those that wait behind the commit under way. Later calls are refused.
func TestCloseWaitsForTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *Store
		closed, queued := make(chan error, 1), make(chan error, 1)
		var during func()
		s = openTemp(t, &Options{Clock: func() time.Time {
			if f := during; f != nil { // the first call is being decided
				during = nil
				f()
			}
			return time.Now()
		}})
		fill := func() error {
			_, err := s.Fill(context.Background(), op(steady, "k", 1, store.Always))
			return err
		}
		during = func() {
			go func() { queued <- fill() }()
			synctest.Wait()
			go func() { closed <- s.Close() }()
			synctest.Wait()
		}
		for name, err := range map[string]error{"first": fill(), "queued": <-queued, "Close": <-closed} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		failsWith(t, fill(), store.ErrClosed)
		levelIs(t, openAt(t, s.db.File().Path(), nil), "k", 2)
	})
}

// TestReadSeesWholeTransactions reads two buckets while transactions change both.
func TestReadSeesWholeTransactions(t *testing.T) {
	s := openTemp(t, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 300 {
			txn := store.Txn{op(steady, "a", 1, store.Always), op(steady, "b", 1, store.Always)}
			if _, err := s.Apply(t.Context(), txn); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		states, err := s.Read(t.Context(), steady.For("a"), steady.For("b"))
		if err != nil || states[0].Level != states[1].Level {
			t.Fatalf("levels %v and %v, %v", states[0].Level, states[1].Level, err)
		}
	}
}
