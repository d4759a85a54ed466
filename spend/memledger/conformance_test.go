package memledger_test

import (
	"testing"
	"time"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/spend/spendtest"
)

var harness = spendtest.Harness{
	New: func(t testing.TB, clock func() time.Time) ledger.Ledger {
		return memledger.New(&memledger.Options{Clock: clock})
	},
	Ledgers: 2, PerLedger: 4,
	CompareRarely: true,
}

func TestRandom(t *testing.T) {
	spendtest.Random(t, harness, 1_000)
}

func TestConformance(t *testing.T) { spendtest.Run(t, harness) }

func TestRaces(t *testing.T) { spendload.Races(t, []ledger.Ledger{harness.New(t, time.Now)}) }

func TestManyExpired(t *testing.T) {
	spendload.Expired(t, func(clock func() time.Time) ledger.Ledger { return harness.New(t, clock) })
}

func TestBounded(t *testing.T) {
	l := harness.New(t, time.Now)
	spendload.Bounded(t, l, l.(book.Reader).Entries)
}
