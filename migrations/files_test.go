package migrations

import (
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
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

// catalog selects the objects of the schema, one in a row: its name, and its definition.
const catalog = `
	WITH c AS (SELECT c.* FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace WHERE nspname = {{'schema'}})
	SELECT 'relation ' || relname, concat_ws(' ', relkind, relpersistence, reloptions, obj_description(oid, 'pg_class')) FROM c
	UNION ALL SELECT format('column %s.%s', relname, attname), concat_ws(' ', format_type(atttypid, atttypmod),
		'not null ' || attnotnull, 'default ' || pg_get_expr(adbin, adrelid), attcollation, attidentity, attgenerated,
		attstorage, attoptions, col_description(c.oid, attnum))
		FROM c JOIN pg_attribute ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped
		LEFT JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum
	UNION ALL SELECT 'index ' || relname, pg_get_indexdef(oid) FROM c WHERE relkind IN ('i', 'I')
	UNION ALL SELECT 'view ' || relname, pg_get_viewdef(oid) FROM c WHERE relkind IN ('v', 'm')
	UNION ALL SELECT format('constraint %s.%s', relname, conname), pg_get_constraintdef(k.oid)
		FROM c JOIN pg_constraint AS k ON conrelid = c.oid
	UNION ALL SELECT format('trigger %s.%s', relname, tgname), pg_get_triggerdef(g.oid) FROM c JOIN pg_trigger AS g ON tgrelid = c.oid
	UNION ALL SELECT 'function ' || p.oid::regprocedure, prosrc FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = pronamespace
		WHERE nspname = {{'schema'}}
	UNION ALL SELECT 'type ' || typname, typtype::text FROM pg_type JOIN pg_namespace AS n ON n.oid = typnamespace
		WHERE nspname = {{'schema'}}`

// TestDownLeavesNothing: each migration and its way down leave the schema as it was before.
func TestDownLeavesNothing(t *testing.T) {
	pool, o := pgtest.Pool(t), &Options{Schema: pgtest.Schema(t)}
	ups, err := fs.Glob(embedded, "*.up.sql")
	if err != nil {
		t.Fatal(err)
	}
	run := func(file string) (objects map[string]string) {
		text, err := names(t, o).read(file)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, pool, o, text)
		objects = make(map[string]string)
		rows, _ := pool.Query(t.Context(), names(t, o).Render(catalog))
		var name, definition string
		if _, err := pgx.ForEachRow(rows, []any{&name, &definition}, func() error { objects[name] = definition; return nil }); err != nil {
			t.Fatal(err)
		}
		return objects
	}
	before := map[string]string{}
	for _, file := range ups {
		after := run(file)
		if maps.Equal(after, before) {
			t.Errorf("%s changes nothing that this test compares", file)
		}
		down := strings.TrimSuffix(file, ".up.sql") + ".down.sql"
		if d := differ.Fields(run(down), before); d != "" {
			t.Errorf("%s leaves other objects than those before %s:\n%s", down, file, d)
		}
		before = run(file)
		if d := differ.Fields(before, after); d != "" {
			t.Errorf("%s makes other objects after %s:\n%s", file, down, d)
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
