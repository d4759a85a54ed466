package book

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/brimgo/brim/spend/ledger"
)

// empty is a ledger whose accounts and requests are empty.
type empty struct{ Reader }

func (empty) Account(key string) (ledger.Account, error) { return ledger.Account{Key: key}, nil }
func (empty) Request(id string) (*ledger.Request, error) { return &ledger.Request{ID: id}, nil }

// captures runs n captures of holds of 50 accounts in one batch.
func captures(tb testing.TB, n int) {
	batch := NewBatch(empty{}, 5)
	for i := range n {
		id, key := fmt.Sprint(i), fmt.Sprint("a", i%50)
		err := batch.Run(&ledger.Job{Run: func(s ledger.Snapshot) (*ledger.Changes, error) {
			if _, _, err := s.Entries(key, ledger.Place{}, 4, 32); err != nil {
				return nil, err
			}
			return &ledger.Changes{
				Accounts: []ledger.Account{{Key: key}}, Requests: []ledger.Request{{ID: "c" + id}}, Spends: []ledger.Request{{ID: id}},
				Entries: []ledger.Entry{{Account: key, Dated: 5}}, Closed: []ledger.Hold{{Account: key, Expires: 7, SpendID: id}},
			}, nil
		}})
		if err != nil {
			tb.Fatal(err)
		}
	}
	if c := batch.Changes(); len(c.Accounts) != min(n, 50) || len(c.Requests) != n || len(c.Spends) != n || len(c.Closed) != n || len(c.Entries) != n {
		tb.Fatalf("%d accounts, %d requests, %d spends, %d closed holds and %d entries of %d captures",
			len(c.Accounts), len(c.Requests), len(c.Spends), len(c.Closed), len(c.Entries), n)
	}
}

func (empty) Entries(string, ledger.Place, int64, int) ([]ledger.Entry, ledger.Place, error) {
	return nil, ledger.EndOf(4), nil
}

// TestLargeBatch: a job of a large batch allocates about as many bytes as one of a small batch.
func TestLargeBatch(t *testing.T) {
	bytes := func(n int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		captures(t, n)
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
	}
	if few, many := bytes(100), bytes(4000); many > 2*few {
		t.Errorf("a job among 4,000 allocates %d bytes, and %d among 100; want at most twice as many", many, few)
	}
}

func BenchmarkBatch(b *testing.B) {
	for _, n := range []int{1, 100, 1000, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				captures(b, n)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/job")
		})
	}
}
