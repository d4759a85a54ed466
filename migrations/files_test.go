package migrations

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/brimgo/brim/internal/pgname"
)

func TestFiles(t *testing.T) {
	files, err := Files(&Options{Schema: "limits", Table: "b", Unlogged: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(files, "0001_buckets.up.sql", "0001_buckets.down.sql"); err != nil {
		t.Error(err)
	}
	text, err := fs.ReadFile(files, "0001_buckets.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `CREATE UNLOGGED TABLE IF NOT EXISTS "limits"."b" (`) {
		t.Errorf("the names are missing:\n%s", text)
	}
}

// golang-migrate gets one version at a time, and readFirst needs a file for each direction.
func TestEveryMigrationGoesBothWays(t *testing.T) {
	versions, err := known()
	if err != nil {
		t.Fatal(err)
	}
	ups, err := fs.Glob(embedded, "*.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	if latest := versions[len(versions)-1]; latest != pgname.Latest {
		t.Errorf("the last migration is %d, and pgname.Latest, by which postgres.Check judges, is %d", latest, pgname.Latest)
	}
	if len(versions) != len(ups) {
		t.Errorf("%d versions in %d files", len(versions), len(ups))
	}
	for i, v := range versions {
		if v != i+1 {
			t.Errorf("version %d is numbered %d", i+1, v)
		}
	}
	for _, name := range ups {
		for _, file := range []string{name, strings.TrimSuffix(name, ".up.sql") + ".down.sql"} {
			text, err := names(t, nil).read(file)
			if err != nil {
				t.Error(err)
			}
			if strings.Contains(text, "{{") {
				t.Errorf("%s: a placeholder remains", file)
			}
		}
	}
}

func TestRestart(t *testing.T) {
	for _, c := range []struct {
		why      string
		dirty    int
		up, down int
	}{
		{"1 on its way down was cut short", none, none, 1},
		{"1 on its way up, or 2 on its way down", 1, none, 2},
		{"2 on its way up, or 4 on its way down", 2, 1, 4},
		{"4 on its way up", 4, 2, 4},
	} {
		r := runner{versions: []int{1, 2, 4}, up: true}
		if got := r.restart(c.dirty); got != c.up {
			t.Errorf("up from dirty %d continues from %d, want %d: %s", c.dirty, got, c.up, c.why)
		}
		r.up = false
		if got := r.restart(c.dirty); got != c.down {
			t.Errorf("down from dirty %d continues from %d, want %d: %s", c.dirty, got, c.down, c.why)
		}
	}
}
