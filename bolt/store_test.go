package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
)

// TestRefusalsWriteNothing: a flood of refused calls must not become a flood of writes. Nor do
// other calls that change nothing write, or begin a journal.
func TestRefusalsWriteNothing(t *testing.T) {
	clock := newTestClock()
	s := openTemp(t, &Options{Clock: clock.Now})
	ctx := context.Background()
	full := store.Limit{Capacity: 10, LeakRate: 1}
	for fills := range 3 {
		before := newest(t, s)
		if st, err := s.Fill(ctx, op(full, "none", 11, store.IfFits)); err != nil || st.Accepted {
			t.Errorf("a refusal: %+v, %v", st, err)
		}
		must(t, s.Delete(ctx, "none", "nor this"))
		if newest(t, s) != before {
			t.Errorf("after %d fills, the store has written", fills)
		}
		fillup(t, s, "k", 1)
	}
	for i := range 2000 { // as many as the store's memory of refusals has places, and more
		mustFill(t, s, op(full, fmt.Sprintf("full %d", i%20), 1, store.IfFits))
	}
	before := newest(t, s)
	refuse := func(name string, do func(key string) (store.State, error)) {
		for i := range 60 {
			st, err := do(fmt.Sprintf("full %d", i%20))
			if err != nil || st.Accepted || st.Level != 10 {
				t.Fatalf("%s: %+v, %v", name, st, err)
			}
		}
	}
	refuse("fill", func(key string) (store.State, error) { return s.Fill(ctx, op(full, key, 1, store.IfFits)) })
	refuse("hold", func(key string) (store.State, error) {
		return s.Fill(ctx, store.Op{Bucket: full.For(key), Hold: 1})
	})
	refuse("apply", func(key string) (store.State, error) {
		results, err := s.Apply(ctx, store.Txn{op(full, "new", 1, store.IfFits), op(full, key, 1, store.IfFits)})
		if err != nil {
			return store.State{}, err
		}
		return results[0].States[1], nil
	})
	for name, o := range map[string]store.Op{
		"nothing put in":             op(full, "full 1", 0, store.IfFits),
		"nothing put into no bucket": op(full, "none", 0, store.Clamp),
		"a question":                 op(full, "none", 1, store.Ask),
		"drain of an empty bucket":   op(full, "none", -1, store.Always),
	} {
		if st, err := s.Fill(ctx, o); err != nil || !st.Accepted {
			t.Errorf("%s: %+v, %v", name, st, err)
		}
	}
	if newest(t, s) != before {
		t.Error("the store has written")
	}
	clock.Advance(3 * time.Second)
	if st, err := s.Fill(ctx, op(full, "full 1", 3, store.IfFits)); err != nil || !st.Accepted {
		t.Errorf("a bucket that has leaked since: %+v, %v", st, err)
	}
}

// TestRefusalIsNotRemembered: a refusal makes the store look at the newest commit first. The
// store never repeats the refusal itself, which may be out of date.
func TestRefusalIsNotRemembered(t *testing.T) {
	s := openTemp(t, nil)
	ctx := context.Background()
	limit := store.Limit{Capacity: 2}
	try := func(l store.Limit, want bool) {
		t.Helper()
		if st, err := s.Fill(ctx, op(l, "k", 2, store.IfFits)); err != nil || st.Accepted != want {
			t.Fatalf("fill: %+v, %v; want accepted %v", st, err, want)
		}
	}
	for range 3 {
		try(limit, true)
		try(limit, false)
		try(limit, false)
		try(store.Limit{Capacity: 4}, true)
		try(limit, false)
		mustFill(t, s, op(limit, "k", -4, store.Always))
		try(limit, true)
		try(limit, false)
		must(t, s.Delete(ctx, "k"))
	}
	// A penalty is written even if the store expects a refusal.
	try(limit, true)
	try(limit, false)
	blocking := op(limit, "k", 1, store.IfFits)
	blocking.BlockFor = time.Hour
	mustFill(t, s, blocking)
	st, err := s.Read(ctx, limit.For("k"))
	if err != nil || st[0].BlockedUntil.IsZero() {
		t.Errorf("read: %+v, %v; want the bucket blocked", st, err)
	}
}

// TestClockAfterRestart: the clock goes on from the highest time in the file, unless that time is
// not believed.
func TestClockAfterRestart(t *testing.T) {
	leaky := store.Limit{Capacity: 1000, LeakRate: 1}
	ctx := context.Background()
	for _, c := range []struct {
		name, why string
		ahead     time.Duration // of the wall clock, the file's highest time
		goesOn    bool
	}{
		{
			"a little ahead", "the wall clock was set back between the runs: no time must be used twice",
			4 * time.Minute, true,
		},
		{"far ahead", "a clock that had jumped must not freeze all buckets", time.Hour, false},
		{"behind", "the usual restart", -time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			o := &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			s := openTemp(t, o)
			path, wall := s.db.File().Path(), time.Now()
			fillup(t, s, "k", 1)
			closeStore(t, s)
			editMeta(t, path, func(meta *bbolt.Bucket) error {
				tot, err := boltfile.NewTable(defaultName).Totals(meta)
				if err != nil {
					return err
				}
				if d := time.UnixMicro(tot.Time).Sub(wall); d < 0 || d > time.Minute {
					t.Errorf("the highest time is %v after the fill", d)
				}
				tot.Time = wall.Add(c.ahead).UnixMicro()
				return boltfile.NewTable(defaultName).PutTotals(meta, new([boltfile.TotalsSize]byte), &tot)
			})
			s = openAt(t, path, o)
			st, err := s.Fill(ctx, op(leaky, "new", 1, store.IfFits))
			must(t, err)
			want := wall
			if c.goesOn {
				want = wall.Add(c.ahead)
			}
			if d := st.At.Sub(want); d < -time.Millisecond || d > time.Minute {
				t.Errorf("the clock shows %v, want %v: %s", st.At, want, c.why)
			}
			if logged := bytes.Contains(log.Bytes(), []byte("MaxSkew")); logged != (c.ahead == time.Hour) {
				t.Errorf("logged %q", log.String())
			}
		})
	}
}

// TestTimeOfAJournalIsKept: a process was killed, and the clock of the machine was set back. Where
// the changes of the journal go to the file at once, the highest time goes with them.
func TestTimeOfAJournalIsKept(t *testing.T) {
	const ahead = 2 * time.Minute
	var killed string
	var last time.Time
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { // each bubble's clock begins at the same time
		time.Sleep(ahead)
		s := openTemp(t, nil)
		fillup(t, s, "k", 1)
		fillup(t, s, "k", 1)
		time.Sleep(time.Second)
		last = fillup(t, s, "k", 1).At
		killed = copyTo(t, s, dir)
	})
	for name, open := range map[string]func(path string) (store.Store, error){
		"NoJournal": func(path string) (store.Store, error) { return Open(path, &Options{NoJournal: true}) },
		"SyncEvery": func(path string) (store.Store, error) { return Open(path, &Options{SyncEvery: time.Hour}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), filepath.Base(killed))
				for _, suffix := range []string{"", kv.LogSuffix} {
					replace(t, path+suffix, killed+suffix)
				}
				s, err := open(path)
				must(t, err)
				closeStore(t, s)
				if got := highestTime(t, path); got < last.UnixMicro() {
					t.Errorf("the highest time is %v, want %v or later", time.UnixMicro(got), last)
				}
			})
		})
	}
}

// highestTime returns the highest time in the file at path, which is closed.
func highestTime(t *testing.T, path string) (us int64) {
	t.Helper()
	editMeta(t, path, func(meta *bbolt.Bucket) error {
		tot, err := boltfile.NewTable(defaultName).Totals(meta)
		us = tot.Time
		return err
	})
	return us
}

// TestTimeIsKept: each way to change a bucket writes the time of the change to the file, unless the
// clock is injected. A replay of an old log, or of a future one, must not disturb live buckets.
func TestTimeIsKept(t *testing.T) {
	for name, fill := range map[string]func(path string, o *Options) store.State{
		"Fill": func(path string, o *Options) store.State {
			s := openAt(t, path, o)
			defer closeStore(t, s)
			return fillup(t, s, "k", 1)
		},
		"Update": func(path string, o *Options) (st store.State) {
			s := openAt(t, path, o)
			defer closeStore(t, s)
			err := s.Update(t.Context(), func(j store.Store) error { st = fillup(t, j, "k", 1); return nil })
			if err != nil {
				t.Error(err)
			}
			return st
		},
	} {
		path := filepath.Join(t.TempDir(), "limits.db")
		replay := func(year int) store.State {
			clock := brimtest.NewClock(time.Date(year, 8, 1, 0, 0, 0, 0, time.UTC))
			return fill(path, &Options{Clock: clock.Now})
		}
		if st := replay(1995); st.At.Year() != 1995 {
			t.Errorf("%s: the decision is dated %v; an injected clock is taken as it is", name, st.At)
		}
		if us := highestTime(t, path); us != 0 {
			t.Errorf("%s: the file has the injected time %v", name, time.UnixMicro(us))
		}
		st := fill(path, nil)
		at := time.UnixMicro(highestTime(t, path))
		if at.Before(st.At) || at.Sub(st.At) > time.Minute {
			t.Errorf("%s: the file has the time %v; the fill was at %v", name, at, st.At)
		}
		replay(1995)
		replay(2095)
		if after := time.UnixMicro(highestTime(t, path)); after != at {
			t.Errorf("%s: a replay has changed the highest time from %v to %v", name, at, after)
		}
		levelIs(t, openAt(t, path, nil), "k", 4)
	}
}

// TestSkewIsLogged: the store logs the number of buckets whose time it does not believe, once for
// each decision or commit, without their keys. It logs no other decision.
func TestSkewIsLogged(t *testing.T) {
	var log bytes.Buffer
	clock := newTestClock()
	s := openTemp(t, &Options{Clock: clock.Now, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	logged := func(want string, times int) {
		t.Helper()
		got := log.String()
		lines := strings.SplitAfter(got, "\n")
		right := len(lines)-1 == times && !strings.Contains(got, "k=")
		for _, line := range lines[:len(lines)-1] {
			right = right && strings.Contains(line, want)
		}
		if !right {
			t.Errorf("logged %q, want %d lines with %q", got, times, want)
		}
		log.Reset()
	}
	fillup(t, s, "k", 1)
	fillup(t, s, "l", 1)
	clock.Advance(-time.Minute)
	fillup(t, s, "k", 1)
	logged("", 0)
	clock.Advance(-time.Hour)
	fillup(t, s, "k", 1)
	logged("buckets=1 ", 1)
	fillup(t, s, "k", 1)
	logged("", 0)
	clock.Advance(-time.Hour)
	results, err := s.Apply(t.Context(), store.Txn{
		op(steady, "k", 1, store.Always), op(steady, "l", 1, store.Always), op(steady, "new", 1, store.Always),
	})
	if err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}
	logged("buckets=2 ", 1)
}

// TestCancelledCallersArguments: a caller that is gone may change the arguments of its call before
// the commit under way has read them. The call is decided as it was made.
func TestCancelledCallersArguments(t *testing.T) {
	one := func(key string) store.Txn { return store.Txn{op(steady, key, 1, store.Always)} }
	txns, keys := []store.Txn{one("a"), one("b")}, []string{"c"}
	for name, c := range map[string]struct {
		call   func(ctx context.Context, s *Store) error
		change func()
	}{
		"a transaction": {
			func(ctx context.Context, s *Store) error { _, err := s.Apply(ctx, txns...); return err },
			func() { txns[0] = one("wrong") },
		},
		"an operation": {
			func(ctx context.Context, s *Store) error { _, err := s.Apply(ctx, txns...); return err },
			func() { txns[1][0] = one("wrong")[0] },
		},
		"a key": {
			func(ctx context.Context, s *Store) error { return s.Delete(ctx, keys...) },
			func() { keys[0] = "d" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			txns, keys = []store.Txn{one("a"), one("b")}, []string{"c"}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var deciding func()
			s := openTemp(t, &Options{Clock: func() time.Time {
				if f := deciding; f != nil {
					deciding = nil
					f()
				}
				return time.Unix(1e9, 0)
			}})
			for _, key := range []string{"c", "d"} {
				fillup(t, s, key, 1)
			}
			ended(t, s)
			changed := make(chan struct{})
			deciding = func() {
				cancel()
				<-changed
			}
			err := c.call(ctx, s)
			c.change()
			close(changed)
			if !errors.Is(err, store.ErrUnknownOutcome) {
				t.Fatalf("error %v, want ErrUnknownOutcome", err)
			}
			ended(t, s)
			want := "a b c d"
			if name == "a key" {
				want = "d"
			}
			entries, err := paging.All(t.Context(), s, "")
			must(t, err)
			var got []string
			for _, e := range entries {
				got = append(got, e.Key)
			}
			if strings.Join(got, " ") != want {
				t.Errorf("the store has the buckets %v, want %s", got, want)
			}
		})
	}
}
