package bolt

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

func openRelaxed(t testing.TB, path string, o *Options) *Relaxed {
	t.Helper()
	r, err := OpenRelaxed(path, o)
	must(t, err)
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
		must(t, err)
	}
}
