package bolt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

func openRelaxed(t testing.TB, path string, o *Options) *Relaxed {
	t.Helper()
	r, err := OpenRelaxed(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// never has a window that outlasts every test, so only Sync and Close write.
var never = &Options{RelaxedWindow: time.Hour}

func TestRelaxedConformance(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"long window":  {RelaxedWindow: 20 * time.Millisecond},
		"short window": {RelaxedWindow: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := func(t *testing.T, path string, clock func() time.Time) *Relaxed {
				o := o
				o.Clock = clock
				r := openRelaxed(t, path, &o)
				if clock != nil {
					unsynced(r.s)
				}
				return r
			}
			temp := func(t *testing.T, clock func() time.Time) store.Store {
				return at(t, filepath.Join(t.TempDir(), "limits.db"), clock)
			}
			storetest.Run(t, func(t *testing.T) store.Store { return temp(t, nil) }, &storetest.Options{
				OpenAt: temp,
				Reopen: func(t *testing.T, s store.Store, clock func() time.Time) store.Store {
					closeStore(t, s)
					return at(t, s.(*Relaxed).s.db.File().Path(), clock)
				},
				Operations: 3000,
				Keys:       1000,
			})
		})
	}
}

// childRelaxed fills pairs of buckets until it is killed. It prints the number of each call
// before the call, and after each Sync, on a line of its own, the number of the last durable
// call.
func childRelaxed(path string) error {
	r, err := OpenRelaxed(path, &Options{RelaxedWindow: relaxedWindow})
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		fmt.Printf("? %d\n", n)
		if n%50 == 0 {
			if err := r.Sync(context.Background()); err != nil {
				return err
			}
			fmt.Printf("= %d\n", n-1) // all before this one are durable
		}
		a, b := fmt.Sprintf("a%d", n%7), fmt.Sprintf("b%d", n%7)
		pair := store.Txn{op(steady, a, 1, store.IfFits), op(steady, b, 1, store.IfFits)}
		res, err := r.Apply(context.Background(), pair)
		if err != nil || res[0].Err != nil || !res[0].Accepted {
			return fmt.Errorf("%+v, %w", res, err)
		}
	}
}

const relaxedWindow = 20 * time.Millisecond

// TestRelaxedKill kills a program at random moments. All synced fills must be stored, no more
// fills than the program asked for, and each transaction wholly or not at all.
func TestRelaxedKill(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the kills")
	}
	t.Parallel()
	path := filepath.Join(t.TempDir(), "limits.db")
	var before, lost float64
	for range 8 {
		synced, asked := killRelaxed(t, path)
		r := openRelaxed(t, path, never)
		entries, err := paging.All(t.Context(), r, "")
		if err != nil {
			t.Fatal(err)
		}
		sums := map[byte]float64{}
		levels := map[string]float64{}
		for _, e := range entries {
			sums[e.Key[0]] += e.Level
			levels[e.Key] = e.Level
		}
		for i := range 7 {
			if a, b := levels[fmt.Sprint("a", i)], levels[fmt.Sprint("b", i)]; a != b {
				t.Fatalf("half of a transaction is stored: %v in one bucket, %v in the other", a, b)
			}
		}
		kept := sums['a'] - before
		if kept < float64(synced) || kept > float64(asked) {
			t.Fatalf("%v fills are stored; %d were synced, %d asked for", kept, synced, asked)
		}
		lost += float64(asked) - kept
		before = sums['a']
		closeStore(t, r)
	}
	t.Logf("%v kept, %v lost of the last windows", before, lost)
	if before < 200 {
		t.Errorf("only %v fills were kept in 8 runs: the test has not tested much", before)
	}
}

// killRelaxed runs the program for a while and kills it. It returns the number of fills that were
// durable for certain, and the number that the program asked for.
func killRelaxed(t *testing.T, path string) (synced, asked int) {
	t.Helper()
	cmd := childCommand("relax", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last, delay := rand.IntN(200), time.Duration(rand.IntN(10_000))*time.Microsecond
	said := 0
	for lines := bufio.NewScanner(out); lines.Scan(); said++ {
		if said == last {
			defer time.AfterFunc(delay, func() { _ = cmd.Process.Kill() }).Stop()
		}
		var sign string
		var n int
		if _, err := fmt.Sscanf(lines.Text(), "%s %d", &sign, &n); err != nil {
			t.Fatalf("the program printed %q", lines.Text())
		}
		if sign == "=" {
			synced = n
		} else {
			asked = n
		}
	}
	_ = cmd.Wait()
	return synced, asked
}

// TestRelaxedLosesWindows checks that the store writes once in a window without Sync.
func TestRelaxedLosesWindows(t *testing.T) {
	flushed := make(chan store.Flush, 100)
	r := openRelaxed(t, filepath.Join(t.TempDir(), "limits.db"), &Options{
		RelaxedWindow: time.Millisecond,
		Trace:         store.Trace{Flush: func(f store.Flush) { flushed <- f }},
	})
	for i := range 5 {
		if st, err := r.Fill(t.Context(), op(steady, "k", 1, store.IfFits)); err != nil || !st.Accepted {
			t.Fatal(st, err)
		}
		f := <-flushed
		if f.Err != nil || f.Requests != 1 {
			t.Fatalf("%+v", f)
		}
		err := r.s.db.Stored(func(tx *kv.Tx) error {
			rec, err := (&view{Tx: tx, s: r.s}).record("k", 0)
			if err != nil || rec.Level != float64(i+1) {
				t.Errorf("the file has %+v (%v), want level %d", rec, err, i+1)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestRelaxedClose closes a store under load. All acknowledged fills must be in the file.
func TestRelaxedClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	r := openRelaxed(t, path, &Options{RelaxedWindow: time.Millisecond})
	var acknowledged atomic.Int64
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			for {
				o := op(steady, fmt.Sprint("k", rnd.IntN(100)), 1, store.IfFits)
				_, err := r.Fill(context.Background(), o)
				if errors.Is(err, store.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				acknowledged.Add(1)
			}
		})
	}
	for acknowledged.Load() < 5000 {
		if err := r.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, r)
	wg.Wait()
	s := openAt(t, path, nil)
	entries, err := paging.All(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, e := range entries {
		sum += int64(e.Level)
	}
	if sum != acknowledged.Load() {
		t.Errorf("%d fills are stored, %d were acknowledged", sum, acknowledged.Load())
	}
}

func TestRelaxedBadUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "limits.db")
	if _, err := OpenRelaxed(path, &Options{RelaxedWindow: -1}); err == nil {
		t.Error("a negative window: no error")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was created all the same")
	}
	r := openRelaxed(t, path, never)
	if _, err := r.Fill(t.Context(), op(steady, "k", 1, store.IfFits)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Compact(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	levelIs(t, r.s, "k", 1)
	closeStore(t, r)
	for _, err := range []error{r.Sync(t.Context()), r.Verify(t.Context())} {
		failsWith(t, err, store.ErrClosed)
	}
}
