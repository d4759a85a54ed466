package itest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/store/storetest"
)

// TestCitus runs the conformance suite over tables that Citus distributes. doc.go tells which
// server it takes.
func TestCitus(t *testing.T) {
	pool := citus(t)
	execute(t, pool, "CREATE EXTENSION IF NOT EXISTS citus")
	var version string
	if err := pool.QueryRow(t.Context(), "SELECT citus_version()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(os.Stderr, "itest:", version)
	h := overPostgres(pool, func(t *testing.T, schema string) {
		execute(t, pool, "SELECT create_distributed_table('"+schema+".buckets', 'key', shard_count => 4)")
		t.Cleanup(func() { execute(t, pool, "DROP SCHEMA "+schema+" CASCADE") })
	})
	h.run(t, storetest.Options{Operations: 1_000, Keys: 200})
}

// citus returns a pool for the server that BRIM_TEST_CITUS names, or for an image of Citus.
func citus(t *testing.T) *pgxpool.Pool {
	t.Helper()
	name := cmp.Or(os.Getenv("BRIM_TEST_CITUS"), "citusdata/citus:13.2.0")
	if strings.Contains(name, "://") {
		config, err := pgxpool.ParseConfig(name)
		if err != nil {
			t.Fatal("BRIM_TEST_CITUS is no connection string that the driver can read")
		}
		config.MaxConns = 16
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return pool
	}
	if exec.Command("docker", "image", "inspect", name).Run() != nil {
		if out, err := exec.Command("docker", "pull", name).CombinedOutput(); err != nil {
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			reason := fmt.Sprintf("Citus: not tested: %s cannot be pulled: %s; set BRIM_TEST_CITUS to the URL of a "+
				"coordinator or to an image", name, lines[len(lines)-1])
			fmt.Fprintln(os.Stderr, "itest:", reason)
			t.Skip(reason)
		}
	}
	return newServer(t, name).pool(t)
}

func execute(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(context.Background(), sql); err != nil {
		t.Fatal(err)
	}
}
