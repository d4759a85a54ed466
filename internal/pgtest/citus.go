package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// PretendCitus has the server of the pool pretend that Citus distributes the tables, which are
// named with their schema: it fills the catalog of Citus, and the tables stay. The server must
// have been started by [NewServer] with "allow_system_table_mods=on".
func PretendCitus(t testing.TB, pool *pgxpool.Pool, tables ...string) {
	t.Helper()
	for _, sql := range []string{
		"CREATE TABLE IF NOT EXISTS pg_catalog.pg_dist_partition (logicalrelid regclass PRIMARY KEY)",
		"GRANT SELECT ON pg_catalog.pg_dist_partition TO PUBLIC",
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range tables {
		if _, err := pool.Exec(t.Context(), "INSERT INTO pg_catalog.pg_dist_partition VALUES ($1::text::regclass)", table); err != nil {
			t.Fatal(err)
		}
	}
}
