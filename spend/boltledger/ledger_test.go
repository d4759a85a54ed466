package boltledger_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// charge is a job that stores a request and the account's working set.
func charge(account, id string) *ledger.Job {
	return &ledger.Job{
		Accounts: []string{account},
		Requests: []string{id},
		Run: func(s ledger.Snapshot) (*ledger.Changes, error) {
			a, err := s.Account(account)
			if err != nil {
				return nil, err
			}
			a.State = append(a.State[:len(a.State):len(a.State)], 'x')
			return &ledger.Changes{
				Accounts: []ledger.Account{a},
				Requests: []ledger.Request{{ID: id, At: s.Now(), Accounts: []string{account}}},
			}, nil
		},
	}
}

// ask is a job that reads an account.
func ask(account string, into *ledger.Account) *ledger.Job {
	return &ledger.Job{Run: func(s ledger.Snapshot) (_ *ledger.Changes, err error) {
		*into, err = s.Account(account)
		return nil, err
	}}
}

// openLedger opens a ledger in an application's database that does not sync.
func openLedger(t *testing.T) (*bbolt.DB, *bolt.Store, *boltledger.Ledger) {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "app.db"), 0o600, &bbolt.Options{NoSync: true})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	s, err := bolt.New(db, &bolt.Options{PruneEvery: -1})
	must(t, err)
	l, err := boltledger.New(s, nil)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return db, s, l
}

// fails checks that err is target and an error of this package.
func fails(t *testing.T, name string, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error %v, want %v", name, err, target)
	}
	if e := (*store.Error)(nil); !errors.As(err, &e) || e.Backend != "boltledger" {
		t.Errorf("%s: error %v is no *store.Error of boltledger", name, err)
	}
}

// allFail checks that every method but Close answers target.
func allFail(t *testing.T, ctx context.Context, l ledger.Ledger, target error) {
	t.Helper()
	_, historyErr := l.History(ctx, "card", ledger.Position{}, 1)
	_, _, accountsErr := l.Accounts(ctx, "", "", 0, 1)
	_, revisionsErr := l.Revisions(ctx, "cards", 0, 1)
	var a ledger.Account
	for name, err := range map[string]error{
		"Decide": l.Decide(ctx, charge("card", "r")), "View": l.View(ctx, ask("card", &a)),
		"DecideAll": l.DecideAll(ctx, []*ledger.Job{charge("card", "r")})[0],
		"History":   historyErr, "Accounts": accountsErr, "Revisions": revisionsErr,
	} {
		fails(t, name, err, target)
	}
}

func TestNewRefuses(t *testing.T) {
	_, err := boltledger.New(nil, nil)
	fails(t, "no store", err, store.ErrClosed)
	_, s, _ := openLedger(t)
	if _, err := boltledger.New(s, &boltledger.Options{Name: strings.Repeat("n", 65)}); err == nil {
		t.Error("a long name: no error")
	}
	must(t, s.Close())
	_, err = boltledger.New(s, nil)
	fails(t, "a closed store", err, store.ErrClosed)
}

func TestClosed(t *testing.T) {
	_, s, l := openLedger(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	allFail(t, cancelled, l, context.Canceled)
	must(t, l.Close())
	allFail(t, t.Context(), l, store.ErrClosed)
	_, err := l.PruneRequests(t.Context(), "", 1)
	fails(t, "PruneRequests", err, store.ErrClosed)
	if err := l.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if _, err := s.Read(t.Context(), store.Bucket{Key: "k"}); err != nil {
		t.Errorf("the store is closed, too: %v", err)
	}
	other, err := boltledger.New(s, nil)
	must(t, err)
	defer func() { _ = other.Close() }()
	must(t, s.Close())
	allFail(t, t.Context(), other, store.ErrClosed)
}

// TestJobErrors: Decide and View return the error of a job as it is, and it leaves the other jobs
// of the batch alone.
func TestJobErrors(t *testing.T) {
	_, _, l := openLedger(t)
	own := errors.New("own")
	failing := &ledger.Job{Run: func(ledger.Snapshot) (*ledger.Changes, error) { return nil, own }}
	if err := l.Decide(t.Context(), failing); err != own {
		t.Errorf("Decide: error %v, want the job's", err)
	}
	if err := l.View(t.Context(), failing); err != own {
		t.Errorf("View: error %v, want the job's", err)
	}
	answers := make(chan error)
	for _, job := range []*ledger.Job{failing, charge("card", "r1"), failing, charge("card", "r2")} {
		go func() { answers <- l.Decide(t.Context(), job) }()
	}
	failed := 0
	for range 4 {
		switch err := <-answers; err {
		case nil:
		case own:
			failed++
		default:
			t.Error(err)
		}
	}
	var a ledger.Account
	if err := l.View(t.Context(), ask("card", &a)); err != nil || failed != 2 || string(a.State) != "xx" {
		t.Errorf("%d jobs failed, the account is %q, %v; want 2 and 2 charges", failed, a.State, err)
	}
}

func TestWith(t *testing.T) {
	db, s, l := openLedger(t)
	ctx := t.Context()
	var a ledger.Account
	tx, err := db.Begin(true)
	must(t, err)
	t.Cleanup(func() { _ = tx.Rollback() }) // the end of the file waits for it, also after a failure
	j := l.With(tx)
	must(t, j.Decide(ctx, charge("card", "r1")))
	own := errors.New("a job's own")
	refused := &ledger.Job{Run: func(ledger.Snapshot) (*ledger.Changes, error) { return nil, own }}
	errs := j.DecideAll(ctx, []*ledger.Job{refused, charge("card", "r2"), charge("card", "r3")})
	if !errors.Is(errs[0], own) || errs[1] != nil || errs[2] != nil {
		t.Errorf("three jobs, of which the first fails: %v", errs)
	}
	if err := j.View(ctx, ask("card", &a)); err != nil || string(a.State) != "xxx" {
		t.Errorf("the account is %q, %v; want the three charges", a.State, err)
	}
	if list, _, err := j.Accounts(ctx, "", "", 0, 10); err != nil || len(list) != 1 {
		t.Errorf("accounts %v, %v", list, err)
	}
	if list, err := j.History(ctx, "card", ledger.Position{}, 10); err != nil || len(list) != 0 {
		t.Errorf("history %v, %v", list, err)
	}
	_, err = j.PruneRequests(ctx, "", 1)
	fails(t, "PruneRequests", err, errors.ErrUnsupported)
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	allFail(t, cancelled, j, context.Canceled)
	must(t, j.Close())
	must(t, tx.Rollback())
	allFail(t, ctx, j, store.ErrClosed)
	if err := l.View(ctx, ask("card", &a)); err != nil || len(a.State) != 0 {
		t.Errorf("the account is %q after a rollback, %v", a.State, err)
	}
	err = db.View(func(tx *bbolt.Tx) error {
		err := l.With(tx).Decide(ctx, charge("card", "r1"))
		fails(t, "Decide in a read-only transaction", err, store.ErrMisconfigured)
		return l.With(tx).View(ctx, ask("card", &a))
	})
	if err != nil {
		t.Errorf("a question in a read-only transaction: %v", err)
	}
	must(t, s.Close())
	err = db.View(func(tx *bbolt.Tx) error { allFail(t, ctx, l.With(tx), store.ErrClosed); return nil })
	must(t, err)
}

// TestDamage: a damaged value or a missing bucket is an error, and never an empty account.
func TestDamage(t *testing.T) {
	db, _, l := openLedger(t)
	ctx := t.Context()
	must(t, l.Decide(ctx, charge("card", "r1")))
	for _, c := range []struct {
		name   string
		change func(value []byte) []byte
	}{
		{"empty", func([]byte) []byte { return []byte{} }},
		{"cut short", func(v []byte) []byte { return v[:len(v)-1] }},
		{"a flipped bit", func(v []byte) []byte { v[1] ^= 1; return v }},
	} {
		err := db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte("spend.accounts"))
			key, value := b.Cursor().First()
			sound := append([]byte(nil), value...)
			if err := b.Put(key, c.change(append([]byte(nil), value...))); err != nil {
				return err
			}
			var a ledger.Account
			if err := l.With(tx).View(ctx, ask("card", &a)); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s: View: error %v, want ErrCorrupt", c.name, err)
			}
			list, _, err := l.With(tx).Accounts(ctx, "", "", 0, 1)
			if err != nil || len(list) != 1 || list[0] != "card" {
				t.Errorf("%s: accounts %+v, %v; want the account", c.name, list, err)
			}
			return b.Put(key, sound)
		})
		must(t, err)
	}
	err := db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("spend.requests")) })
	must(t, err)
	allFail(t, ctx, l, store.ErrCorrupt)
	_, err = l.PruneRequests(ctx, "", time.Now().UnixMicro())
	fails(t, "PruneRequests", err, store.ErrCorrupt)
}

// stateKey is the key of the working set of the account that was the n-th one to be created.
func stateKey(n byte) []byte { return []byte{'n', 0x80, 0, 0, 0, 0, 0, 0, n, 's'} }

// TestDamagedAccountFailsAlone: a damaged account fails its own decisions. Decisions of other
// accounts in the same batch go on, and so does PruneRequests.
func TestDamagedAccountFailsAlone(t *testing.T) {
	db, _, l := openLedger(t)
	ctx := t.Context()
	for _, account := range []string{"a", "b", "c"} {
		must(t, l.Decide(ctx, charge(account, "first-"+account)))
	}
	err := db.Update(func(tx *bbolt.Tx) error {
		return errors.Join(tx.Bucket([]byte("spend.accounts")).Put(stateKey(2), []byte("nonsense")),
			tx.Bucket([]byte("spend.requests")).Put([]byte("first-c"), []byte("nonsense")))
	})
	must(t, err)
	// blind stores an account that it has not read.
	blind := func(account, id string) *ledger.Job {
		return &ledger.Job{Accounts: []string{account}, Run: func(s ledger.Snapshot) (*ledger.Changes, error) {
			return &ledger.Changes{
				Accounts: []ledger.Account{{Key: account, State: []byte("blind")}},
				Requests: []ledger.Request{{ID: id, At: s.Now(), Accounts: []string{account}}},
			}, nil
		}}
	}
	for _, job := range []func(account, id string) *ledger.Job{charge, blind} {
		answers := make(map[string]chan error)
		for _, account := range []string{"a", "b", "c"} {
			answer := make(chan error, 1)
			answers[account] = answer
			go func() { answer <- l.Decide(ctx, job(account, fmt.Sprintf("%p-%s", job, account))) }()
		}
		for account, answer := range answers {
			if err := <-answer; errors.Is(err, store.ErrCorrupt) != (account == "b") || err != nil && account != "b" {
				t.Errorf("account %s: %v", account, err)
			}
		}
	}
	n, err := l.PruneRequests(ctx, "", time.Now().Add(time.Hour).UnixMicro())
	if err != nil || n != 6 {
		t.Errorf("%d requests were pruned, %v; want all 6 intact ones", n, err)
	}
	other, err := bolt.New(db, &bolt.Options{PruneEvery: -1})
	must(t, err)
	if l, err := boltledger.New(other, nil); err != nil {
		t.Errorf("a ledger with damaged values: %v", err)
	} else if err := l.Close(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(tx *bbolt.Tx) error{
		func(tx *bbolt.Tx) error { return tx.Bucket([]byte("spend.accounts")).Delete(stateKey(1)) },
		func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("spend.requests")) },
		func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("spend.rules")) },
	} {
		must(t, db.Update(change))
		_, err = boltledger.New(other, nil)
		fails(t, "a ledger that has lost something", err, store.ErrCorrupt)
	}
}

// TestSyncEvery: a ledger refuses a store whose decisions a power cut may take back.
func TestSyncEvery(t *testing.T) {
	s, err := bolt.Open(filepath.Join(t.TempDir(), "limits.db"), &bolt.Options{SyncEvery: time.Hour, PruneEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	l, err := boltledger.New(s, nil)
	if l != nil || !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(err.Error(), "SyncEvery") {
		t.Errorf("New answers %v, %v; want ErrMisconfigured for SyncEvery", l, err)
	}
}
