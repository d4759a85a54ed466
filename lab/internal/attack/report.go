package attack

import (
	"testing"
	"time"
)

// Row is the result of a harness against one subject.
type Row struct {
	Often string // the number of attacks, with their unit
	Found string // [Nothing], or a short text
}

// Nothing is the text of [Row.Found] for a test that has passed.
const Nothing = "nothing"

// Begin begins the row of a test. The harness fills in Often, and Found if it finds something. When
// the test ends, also by t.Fatal, the row goes into the test's log. It tells of a failure of the test
// even if the harness has found nothing.
func Begin(t testing.TB, harness, subject string, seed Seed) *Row {
	r := &Row{Found: Nothing}
	start := time.Now()
	t.Cleanup(func() {
		if t.Failed() && r.Found == Nothing {
			r.Found = "a failure, see above"
		}
		t.Logf("%s attacked %s: %s, seed %d, in %v: found %s", harness, subject, r.Often, seed,
			time.Since(start).Round(time.Second), r.Found)
	})
	return r
}
