package pgtest

import (
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

var command = regexp.MustCompile("`([^`]+)`")

// Mend runs the commands that stand between backquotes in the remedy of a finding: SQL as the user
// of the pool, and "brim migrate up" by up.
func Mend(t testing.TB, pool *pgxpool.Pool, remedy string, up func() error) {
	t.Helper()
	found := command.FindAllStringSubmatch(remedy, -1)
	if found == nil {
		t.Fatalf("there is no command in %q", remedy)
	}
	for _, c := range found {
		var err error
		if c[1] == "brim migrate up" {
			err = up()
		} else {
			_, err = pool.Exec(t.Context(), c[1])
		}
		if err != nil {
			t.Fatalf("%s: %v", c[1], err)
		}
	}
}
