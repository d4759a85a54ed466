package pgtest

import (
	"context"
	_ "embed" // for the definitions
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

//go:embed hostile.sql
var hostile string

// Hostile makes a schema of operators and functions that the server prefers to those of pg_catalog
// wherever types match the latter only by a conversion, and returns it for a search_path. Every use
// of one fails, so a statement that works with this search_path casts its constants. The schema is
// dropped at the end of t.
func Hostile(t testing.TB) (schema string) {
	t.Helper()
	schema = Schema(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, sql := range []string{"CREATE SCHEMA {{schema}}", hostile} {
		if _, err := conn.Exec(ctx, strings.ReplaceAll(sql, "{{schema}}", schema)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Exec(ctx, "SET search_path = "+schema); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"SELECT 1::float8 * 2.0", "SELECT unnest('{a}'::text[])", "SELECT pg_relation_size(1::oid)"} {
		if _, err := conn.Exec(ctx, sql); err == nil || !strings.Contains(err.Error(), "hostile") {
			t.Fatalf("the search_path is not hostile to %s: %v", sql, err)
		}
	}
	return schema
}
