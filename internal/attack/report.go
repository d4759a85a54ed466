package attack

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/table"
)

// Row is the result of a harness against one subject.
type Row struct {
	Harness string
	Subject string // of the attack
	Often   string // the number of attacks, with their unit
	Seed    Seed
	Took    time.Duration
	Found   string // [Nothing], or a short text
}

func (r Row) cells() []string {
	return []string{
		r.Harness, r.Subject, r.Often, strconv.FormatUint(uint64(r.Seed), 10),
		r.Took.Round(time.Second).String(), r.Found,
	}
}

const heading = `# Report of the last run

Every harness writes its rows here while it runs. BRIM_SEED gives a seed to a harness again.

`

// Nothing is the text of [Row.Found] for a test that has passed.
const Nothing = "nothing"

// reporting is held while a test of this process writes its row.
var reporting sync.Mutex

// Begin begins the row of a test. The harness fills in Often, and Found if it finds something. When
// the test ends, also by t.Fatal, the row goes into the report. It tells of a failure of the test
// even if the harness has found nothing.
//
// The report is the file whose path BRIM_REPORT holds. The row takes the place of the last row of
// the same harness and subject. Without the variable, nothing is written. Only one process may
// report at a time: "go test" needs -p 1.
func Begin(t testing.TB, harness, subject string, seed Seed) *Row {
	r := &Row{Harness: harness, Subject: subject, Seed: seed, Found: Nothing}
	start := time.Now()
	t.Cleanup(func() {
		r.Took = time.Since(start)
		if t.Failed() && r.Found == Nothing {
			r.Found = "a failure, see the log"
		}
		path := os.Getenv("BRIM_REPORT")
		if path == "" {
			return
		}
		reporting.Lock()
		defer reporting.Unlock()
		if err := reportTo(path, *r); err != nil {
			t.Errorf("attack: report: %v", err)
		}
	})
	return r
}

func reportTo(path string, r Row) error {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	t, err := table.ReadMarkdown(string(text))
	if err != nil {
		t = table.New(table.Left("harness"), table.Left("attacked"), table.Right("how often"),
			table.Right("seed"), table.Right("took"), table.Left("found"))
	}
	same := func(row []string) bool { return row[0] == r.Harness && row[1] == r.Subject }
	t.Rows = slices.DeleteFunc(t.Rows, same)
	t.Add(r.cells()...)
	slices.SortFunc(t.Rows, slices.Compare[[]string])
	return os.WriteFile(path, []byte(heading+t.Markdown()), 0o644)
}
