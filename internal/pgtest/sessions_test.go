package pgtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// recorder is a test that keeps its messages.
type recorder struct {
	testing.TB
	told string
}

func (r *recorder) Errorf(format string, args ...any) { r.told += fmt.Sprintf(format, args...) }

// TestLeftCheckedOut: a test that leaves a transaction open ends, and says in which statement.
func TestLeftCheckedOut(t *testing.T) {
	config, err := pgxpool.ParseConfig(URL(t))
	if err != nil {
		t.Fatal(err)
	}
	s := track(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	schema := Schema(t) // which is dropped in the end, so the lock must not stay
	Execute(t, "CREATE SCHEMA "+schema)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "CREATE TABLE "+schema+".locked ()"); err != nil {
		t.Fatal(err)
	}
	r := &recorder{TB: t}
	s.close(r, pool, 50*time.Millisecond)
	if !strings.Contains(r.told, "end of the test: 1;") || !strings.Contains(r.told, "idle in transaction: CREATE TABLE "+schema+".locked") {
		t.Errorf("told %q", r.told)
	}
}
