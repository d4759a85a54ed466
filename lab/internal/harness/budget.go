package harness

import (
	"os"
	"time"
)

// Night reports whether BRIM_TORTURE=1 asks for the budgets of a night.
func Night() bool { return os.Getenv("BRIM_TORTURE") == "1" }

// Budget limits a run.
type Budget struct {
	Count int           // of tries
	Time  time.Duration // of the whole run
}

// Pick returns the budget of the night, or else the quick one.
func Pick(quick, night Budget) Budget {
	if Night() {
		return night
	}
	return quick
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
