package attack

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
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
	Found   string // "nothing", or a short text
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

// Report writes a row into the report of BRIM_REPORT, a path, in the place of the last row of that
// harness and subject. Without the variable, it writes nothing. Only one process may report at a
// time: "go test" needs -p 1.
func Report(r Row) error {
	path := os.Getenv("BRIM_REPORT")
	if path == "" {
		return nil
	}
	if err := reportTo(path, r); err != nil {
		return fmt.Errorf("attack: report: %w", err)
	}
	return nil
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
