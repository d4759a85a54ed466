package itest

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/migrations"
)

// Up, Down and the script may each run twice. Names that need quotes must not matter.
func TestMigrations(t *testing.T) {
	forEachVersion(t, postgreSQL, func(t *testing.T, v version) {
		s := newServer(t, v.image)
		pool, o := s.pool(t), &migrations.Options{Schema: `Odd "name"`, Table: "of a table"}
		for range 2 {
			for range 2 {
				if err := migrations.Up(t.Context(), pool, o); err != nil {
					t.Fatal(err)
				}
			}
			wantLatest(t, pool, o)
			if err := migrations.Down(t.Context(), pool, o); err != nil {
				t.Fatal(err)
			}
		}
		script, err := migrations.SQL(o)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := pool.Exec(t.Context(), script); err != nil {
				t.Fatal(err)
			}
		}
		wantLatest(t, pool, o)
	})
}

// wantLatest fails t if the schema is not at the latest version, or if a migration stopped midway.
func wantLatest(t *testing.T, pool *pgxpool.Pool, o *migrations.Options) {
	t.Helper()
	got, err := migrations.CurrentStatus(t.Context(), pool, o)
	if err != nil {
		t.Fatal(err)
	}
	if got.Version != got.Latest || got.Dirty {
		t.Fatalf("the schema is at %+v, want the latest version, not dirty", got)
	}
}
