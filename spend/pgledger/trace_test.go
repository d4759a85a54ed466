package pgledger_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// TestTrace sees that the store's Trace gets the ledger's flushes. The error of a job is an
// answer, and no failure of the flush.
func TestTrace(t *testing.T) {
	pool := pgtest.Pool(t)
	var flushes atomic.Int64
	l := over(t, pool, &postgres.Options{Schema: migrated(t), Trace: store.Trace{
		Flush: func(f store.Flush) {
			if f.Backend != "pgledger" || f.Requests != 1 || f.Took <= 0 || f.Err != nil {
				t.Errorf("%+v", f)
			}
			flushes.Add(1)
		},
	}})
	mine := errors.New("mine")
	bad := idle("account")
	bad.Run = func(ledger.Snapshot) (*ledger.Changes, error) { return nil, mine }
	if err := l.Decide(t.Context(), bad); err != mine {
		t.Errorf("error %v, want the job's own", err)
	}
	if err := l.Decide(t.Context(), idle("account")); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil { // waits for the last flush
		t.Fatal(err)
	}
	if flushes.Load() != 2 {
		t.Errorf("%d flushes were reported, want 2", flushes.Load())
	}
}
