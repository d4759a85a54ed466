package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/redisstore"
	"github.com/brimgo/brim/store"
)

// stoppedClock stands still until the test moves it.
type stoppedClock struct{ us atomic.Int64 }

func clockAt(t time.Time) *stoppedClock {
	c := &stoppedClock{}
	c.us.Store(t.Truncate(time.Second).UnixMicro())
	return c
}

func (c *stoppedClock) now() time.Time { return time.UnixMicro(c.us.Load()) }

// TestCopyBetweenBackends copies the buckets of random operations from every backend to every
// backend, whose clocks differ by a day. Until the copy and after it, each bucket of the target
// must agree with the source, of which the model of package storetest proves the levels. No
// arithmetic of the operations rounds, so the levels agree bit for bit at any time.
func TestCopyBetweenBackends(t *testing.T) {
	server := redistest.NewServer(t)
	n := 0
	backends := map[string]func(t *testing.T, clock func() time.Time) (store.Store, error){
		"memory": func(_ *testing.T, clock func() time.Time) (store.Store, error) {
			return memory.New(&memory.Options{Clock: clock}), nil
		},
		"bolt": func(t *testing.T, clock func() time.Time) (store.Store, error) {
			return bolt.Open(filepath.Join(t.TempDir(), "limits.db"), &bolt.Options{Clock: clock})
		},
		"postgres": func(t *testing.T, clock func() time.Time) (store.Store, error) {
			schema, pool := pgtest.Schema(t), pgtest.Pool(t)
			if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
				return nil, err
			}
			return postgres.New(pool, &postgres.Options{Schema: schema, Clock: clock})
		},
		"redis": func(t *testing.T, clock func() time.Time) (store.Store, error) {
			n++
			return redisstore.New(server.Client(t), &redisstore.Options{Prefix: fmt.Sprint(n, ":"), Clock: clock})
		},
	}
	for from, openFrom := range backends {
		for to, openTo := range backends {
			t.Run(from+" to "+to, func(t *testing.T) {
				here, there := clockAt(time.Now()), clockAt(time.Now().Add(24*time.Hour))
				source, err := openFrom(t, here.now)
				if err != nil {
					t.Fatal(err)
				}
				defer source.Close()
				target, err := openTo(t, there.now)
				if err != nil {
					t.Fatal(err)
				}
				defer target.Close()
				random := rand.New(rand.NewPCG(1, 2))
				keys := randomBuckets(t, source, here, random, 1100) // of several pages
				randomBuckets(t, target, there, random, 1200)        // to be replaced, but for the last 100
				for again := range 2 {
					c := copying{from: source, to: target, prefix: "k"}
					if err := c.run(t.Context()); err != nil {
						t.Fatal(err)
					}
					for range 3 {
						same(t, source, target, keys)
						here.us.Add(1_500_000)
						there.us.Add(1_500_000)
					}
					if c.copied < copyPage || c.copied > int64(len(keys)) { // the others are empty
						t.Errorf("run %d: copied %d of %d buckets", again, c.copied, len(keys))
					}
				}
				states, err := target.Read(t.Context(), store.Bucket{Key: "k1150"})
				if err != nil || states[0].Capacity == 0 {
					t.Errorf("a bucket that the source does not have is gone: %+v, %v", states, err)
				}
			})
		}
	}
}

// randomBuckets makes n buckets by random operations. Buckets leak, are held, blocked, above their
// capacity, full or empty.
func randomBuckets(t *testing.T, s store.Store, clock *stoppedClock, random *rand.Rand, n int) (keys []string) {
	t.Helper()
	var txns []store.Txn
	flush := func() {
		results, err := s.Apply(t.Context(), txns...)
		for _, r := range results {
			if err == nil {
				err = r.Err
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		txns = txns[:0]
	}
	for i := range n {
		key := fmt.Sprint("k", i)
		keys = append(keys, key)
		b := store.Limit{Capacity: float64(1 + random.IntN(64)), LeakRate: []float64{0, 0.5, 8}[random.IntN(3)]}.For(key)
		amount := float64(1 + random.IntN(96))
		txns = append(txns, store.Txn{{Bucket: b, Amount: amount, Mode: []store.Mode{store.Clamp, store.Always}[random.IntN(2)]}})
		switch random.IntN(5) {
		case 0:
			txns = append(txns, store.Txn{{Bucket: b, Hold: 2, Mode: store.Always}})
		case 1:
			txns = append(txns, store.Txn{{Bucket: b, Mode: store.Block, BlockFor: time.Duration(1+random.IntN(9000)) * time.Millisecond}})
		case 2:
			txns = append(txns, store.Txn{{Bucket: b, Amount: -amount, Mode: store.Always}})
		}
		if i%100 == 99 {
			flush()
			clock.us.Add(250_000)
		}
	}
	flush()
	return keys
}

// same compares the buckets of two stores, which tell the same apart from the times of their
// clocks.
func same(t *testing.T, source, target store.Store, keys []string) {
	t.Helper()
	buckets := make([]store.Bucket, len(keys))
	for i, key := range keys {
		buckets[i].Key = key
	}
	want, err := source.Read(t.Context(), buckets...)
	if err != nil {
		t.Fatal(err)
	}
	got, err := target.Read(t.Context(), buckets...)
	if err != nil {
		t.Fatal(err)
	}
	left := func(st store.State) time.Duration {
		if st.BlockedUntil.IsZero() {
			return 0
		}
		return st.BlockedUntil.Sub(st.At)
	}
	for i := range want {
		w, g := want[i], got[i]
		gone := w.Level == 0 && w.Held == 0 && left(w) == 0
		if w.Level != g.Level || w.Held != g.Held || left(w) != left(g) ||
			!gone && (w.Capacity != g.Capacity || w.LeakRate != g.LeakRate) {
			t.Fatalf("%s: the target has %+v; want %+v", keys[i], g, w)
		}
	}
}

// TestCopyInterrupted ends the context in the middle of a copy. The page in flight is written
// whole, and a second run completes the copy.
func TestCopyInterrupted(t *testing.T) {
	clock := clockAt(time.Now())
	var list [2]store.Store
	for i := range list {
		s := memory.New(&memory.Options{Clock: clock.now})
		defer s.Close()
		list[i] = s
	}
	keys := randomBuckets(t, list[0], clock, rand.New(rand.NewPCG(3, 4)), 1200)
	ctx, cancel := context.WithCancel(t.Context())
	c := copying{from: list[0], to: list[1], progress: func(int64) { cancel() }}
	if err := c.run(ctx); err != context.Canceled || c.copied == 0 || c.copied > copyPage {
		t.Fatalf("%d buckets, %v; want one page and the context's error", c.copied, err)
	}
	n := int64(0)
	if err := list[1].Visit(t.Context(), "", func(store.Entry) bool { n++; return true }); err != nil || n != c.copied {
		t.Errorf("the target has %d buckets, %v; want %d", n, err, c.copied)
	}
	c = copying{from: list[0], to: list[1]}
	if err := c.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, list[0], list[1], keys)
}

// TestCopyCommand runs the command on files, and refuses wrong calls and a ledger.
func TestCopyCommand(t *testing.T) {
	from, to := storeIn(t), storeIn(t)
	limit := []string{"--capacity", "5", "--leak-rate", "0", "--store", from}
	for _, key := range []string{"a", "b", "other"} {
		cli(t, append([]string{"try", key, "3"}, limit...)...).want(t, exitOK, "accepted", "")
	}
	cli(t, "copy", "--from", from, "--to", to, "--dry-run", "--json").want(t, exitOK, `{"copied":3,"dry_run":true}`, "")
	cli(t, "list", "--store", to).want(t, exitAbsent, "", "no such file")
	cli(t, "copy", "--from", from, "--to", to, "--prefix", "other").want(t, exitOK, "copied: 1", "")
	cli(t, "copy", "--from", from, "--to", to).want(t, exitOK, "copied: 3", "")
	cli(t, "state", "a", "--store", to).want(t, exitOK, "level      3", "")
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no source", []string{"--to", to}, exitUsage, "--from is missing"},
		{"no target", []string{"--from", from}, exitUsage, "--to is missing"},
		{"same", []string{"--from", from, "--to", from}, exitUsage, "the same store"},
		{"memory", []string{"--from", from, "--to", "memory:"}, exitUsage, "ends with the command"},
		{"unknown", []string{"--from", "mysql://h", "--to", to}, exitUsage, "--from: "},
		{"absent", []string{"--from", from + "x", "--to", to}, exitAbsent, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) { cli(t, append([]string{"copy"}, c.args...)...).want(t, c.code, "", c.says) })
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(signalError{syscall.SIGINT})
	cliIn(t, ctx, "", "copy", "--from", from, "--to", to, "--buckets-only").want(t, 130, "", "interrupt")
}

// TestCopyRefusesLedger copies from a file with a ledger, which needs --buckets-only.
func TestCopyRefusesLedger(t *testing.T) {
	from, to := storeIn(t), storeIn(t)
	cli(t, "try", "k", "3", "--capacity", "5", "--leak-rate", "0", "--store", from).want(t, exitOK, "accepted", "")
	budget := budgetIn(t, cardsBudget)
	cli(t, "spend", "charge", "card", "3.00", "--budget", budget, "--id", "1", "--store", from).want(t, exitOK, "charged", "")
	cli(t, "copy", "--from", from, "--to", to).want(t, exitUsage, "", "has a ledger of spends")
	cli(t, "copy", "--from", from, "--to", to, "--buckets-only").want(t, exitOK, "copied: 1", "")
}
