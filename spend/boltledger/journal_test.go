package boltledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/spendtest"
	"github.com/brimgo/brim/store"
)

// journaled keeps ledgers in a file of their own, with a journal whose segments fill soon: see
// TestMain. Every other Reopen is that after a kill, from copies of the file and the journal.
func journaled(t *testing.T) spendtest.Harness {
	t.Helper()
	var path string
	var s *bolt.Store
	kills := 0
	open := func(t testing.TB, at string) {
		var err error
		if s, err = bolt.Open(at, &bolt.Options{PruneEvery: -1}); err != nil {
			t.Fatal(err)
		}
		path = at
	}
	open(t, filepath.Join(t.TempDir(), "first.db"))
	newLedger := func(t testing.TB, clock func() time.Time) ledger.Ledger {
		l, err := boltledger.New(s, &boltledger.Options{Clock: clock})
		must(t, err)
		return l
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return spendtest.Harness{
		New: newLedger,
		Reopen: func(tt testing.TB, l ledger.Ledger, clock func() time.Time) ledger.Ledger {
			at := path
			if kills++; kills%2 == 0 {
				at = filepath.Join(t.TempDir(), fmt.Sprint(kills, ".db"))
				copyLive(tt, s, path, at)
			}
			if err := errors.Join(l.Close(), s.Close()); err != nil {
				tt.Fatal(err)
			}
			open(tt, at)
			return newLedger(tt, clock)
		},
		Ledgers: 1, PerLedger: 64,
		CompareRarely: true,
	}
}

// copyLive copies the file and the journal of an open store as a kill leaves them. Nobody calls the
// store meanwhile, and the lock of the file keeps it from a checkpoint. So the two copies belong to
// one moment.
func copyLive(t testing.TB, s *bolt.Store, from, to string) {
	t.Helper()
	file := kv.Of(s).File()
	must(t, file.Lock(context.Background()))
	defer file.Unlock()
	for _, suffix := range []string{"", ".journal"} {
		b, err := os.ReadFile(from + suffix)
		if suffix != "" && errors.Is(err, os.ErrNotExist) {
			return
		}
		if err == nil {
			err = os.WriteFile(to+suffix, b, 0o600)
		}
		must(t, err)
	}
}

func TestJournaledRandom(t *testing.T) {
	spendtest.Random(t, journaled(t), seed.Attempts(100, 100_000))
}

func TestJournaledConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the suite on a disk that is synced")
	}
	spendtest.Run(t, journaled(t))
}

// TestJournalOfBoth: buckets and spends share a journal. Reads and listings see all decisions while
// the journal is written to the file, over and over, and so does a store that is opened again.
func TestJournalOfBoth(t *testing.T) {
	path := filepath.Join(t.TempDir(), "both.db")
	o, err := openSample(t.Context(), path)
	must(t, err)
	const callers, each = 8, 60
	limit := store.Limit{Capacity: 1000}
	account := func(i int) string { return fmt.Sprint("account:", i) }
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for n := range each {
				d, err := o.b.Charge(t.Context(), spend.Request{
					ID: fmt.Sprintf("%d-%d", i, n), Account: account(i), Amount: spend.Money{Minor: 1, Currency: "EUR"},
				})
				if err != nil || !d.Approved {
					t.Errorf("%+v, %v", d, err)
				}
				if _, err := o.s.Fill(t.Context(), store.Op{Bucket: limit.For(account(i)), Amount: 1}); err != nil {
					t.Error(err)
				}
				if n%10 == 9 {
					if err := kv.Of(o.s).Checkpoint(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if used, err := o.b.Remaining(t.Context(), account(i)); err != nil || used[0].Used.Minor != int64(n+1) {
					t.Errorf("after %d charges: %+v, %v", n+1, used, err)
				}
				if list, err := history(t.Context(), o.b, account(i)); err != nil || len(list) != n+1 {
					t.Errorf("after %d charges: %d entries, %v", n+1, len(list), err)
				}
			}
		})
	}
	wg.Wait()
	for _, end := range []string{"none", "a kill", "Close"} {
		if end == "a kill" {
			copyLive(t, o.s, path, path+"2")
		}
		if end != "none" {
			must(t, o.close())
			if end == "a kill" {
				path += "2"
			}
			if o, err = openSample(t.Context(), path); err != nil {
				t.Fatal(err)
			}
		}
		accounts, _, err := o.l.Accounts(t.Context(), "", "", 0, 100)
		if err != nil || len(accounts) != callers {
			t.Errorf("%s: %d accounts, %v", end, len(accounts), err)
		}
		for i := range callers {
			used, err := o.b.Remaining(t.Context(), account(i))
			if err == nil {
				err = o.b.Verify(t.Context(), account(i))
			}
			if err != nil || used[0].Used.Minor != each {
				t.Errorf("%s: %+v, %v; want %d used", end, used, err, each)
			}
			states, err := o.s.Read(t.Context(), limit.For(account(i)))
			if err != nil || states[0].Level != each {
				t.Errorf("%s: %+v, %v; want a level of %d", end, states, err, each)
			}
		}
	}
	must(t, errors.Join(o.s.Verify(t.Context()), o.close()))
}

// TestStoreClosedFirst: a store that is closed before its ledger keeps every decision that was
// answered, and refuses the others.
func TestStoreClosedFirst(t *testing.T) {
	for round := range 10 {
		path := filepath.Join(t.TempDir(), "closed.db")
		o, err := openSample(t.Context(), path)
		must(t, err)
		var answered [8]int64
		var wg sync.WaitGroup
		began := make(chan bool, len(answered))
		for i := range answered {
			wg.Go(func() {
				for n := 0; ; n++ {
					_, err := o.b.Charge(t.Context(), spend.Request{
						ID: fmt.Sprintf("%d-%d", i, n), Account: accountName(i), Amount: spend.Money{Minor: 1, Currency: "EUR"},
					})
					if err != nil {
						if !errors.Is(err, store.ErrClosed) {
							t.Errorf("%v; want ErrClosed", err)
						}
						return
					}
					if answered[i]++; answered[i] == int64(3+round) {
						began <- true
					}
				}
			})
		}
		<-began
		must(t, o.s.Close())
		wg.Wait()
		allFail(t, t.Context(), o.l, store.ErrClosed)
		must(t, o.close())
		if o, err = openSample(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		for i, n := range answered {
			used, err := o.b.Remaining(t.Context(), accountName(i))
			if err != nil || used[0].Used.Minor != n {
				t.Errorf("%+v, %v; want %d used", used, err, n)
			}
		}
		must(t, o.close())
	}
}
