package harness

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/seed"
)

// Night reports whether BRIM_TORTURE=1 asks for the budgets of a night.
func Night() bool { return os.Getenv("BRIM_TORTURE") == "1" }

// Budget limits a run.
type Budget struct {
	Count int           // of tries
	Time  time.Duration // of the whole run
}

// Pick returns the usual budget of a test, or BRIM_COUNT tries without a limit of time.
func Pick(t testing.TB, usual Budget) Budget {
	t.Helper()
	count, err := seed.Count(0)
	if err != nil {
		t.Fatal(err)
	}
	if count > 0 {
		return Budget{Count: count, Time: math.MaxInt64}
	}
	return usual
}

// Start begins to spend the budget.
func (b Budget) Start() *Meter { return &Meter{Budget: b, start: time.Now()} }

// Meter counts the tries of a run.
type Meter struct {
	Budget
	Done  int // tries so far
	start time.Time
}

// Spent reports whether the budget is used up.
func (m *Meter) Spent() bool { return m.Done >= m.Count || time.Since(m.start) >= m.Time }
