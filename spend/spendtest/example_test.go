package spendtest_test

import (
	"testing"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/spend/spendtest"
)

// The test of a ledger runs both suites. memledger stands for the ledger.
func ExampleRun() {
	_ = func(t *testing.T) { // TestConformance of the ledger's package
		h := spendtest.Harness{New: func(_ testing.TB, clock func() time.Time) ledger.Ledger {
			return memledger.New(&memledger.Options{Clock: clock})
		}}
		spendtest.Run(t, h)
		spendtest.Random(t, h, 100)
	}
}
