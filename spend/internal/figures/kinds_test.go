package figures

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/calendar"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// noPast is an account without entries at time 0.
type noPast struct{}

func (noPast) Time() int64           { return 0 }
func (noPast) Seq() int64            { return 0 }
func (noPast) Removed() int64        { return MinTime }
func (noPast) Latest(at int64) int64 { return at }
func (noPast) Page(ledger.Place, int64, int) ([]ledger.Entry, ledger.Place, error) {
	return nil, ledger.EndOf(math.MaxInt64), nil
}

// TestVerifyKinds walks the kinds: the figures of a rule of each are proved by the entries, and one
// unit more is damage.
func TestVerifyKinds(t *testing.T) {
	for k := Leaky; int(k) < len(Kinds); k++ {
		r := &Rule{
			Name: "r", Kind: k, Limit: money.Money{Minor: 100}, Length: time.Hour,
			Period: calendar.Day, Zone: time.UTC, Anchor: calendar.Midnight,
		}
		if r.Span() == Alone {
			continue
		}
		u := New(r, r.Fingerprint())
		u.Amounts = Amounts{Now: 100, Until: MaxTime}
		if err := u.Advance(noPast{}, 0, 0); err != nil {
			t.Fatal(err)
		}
		entries := []ledger.Entry{
			{Seq: 1, Part: 1, Kind: KindSpend, Used: 5, Count: 1}, {Seq: 2, Part: 2, Kind: KindAuthorize, Held: 7, Pending: 1, Expires: 9},
		}
		for i := range entries {
			if err := u.Count(&entries[i], 0); err != nil {
				t.Fatal(err)
			}
		}
		if u.Prove(1, 8) == nil {
			t.Errorf("%s: the entries cannot prove the figures", Kinds[k].Name)
			continue
		}
		if err := prove(u, entries); err != nil {
			t.Errorf("%s: %v; want that the entries prove the figures", Kinds[k].Name, err)
		}
		if u.used++; u.leaks() {
			u.bucket.Level++
		}
		if err := prove(u, entries); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %v with a unit that no entry has; want ErrCorrupt", Kinds[k].Name, err)
		}
	}
}
