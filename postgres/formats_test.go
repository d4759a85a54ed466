package postgres_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

var update = flag.Bool("update", false, "write testdata for the newest schema")

// writtenSchema is the name of the schema in testdata. The test replaces it by its own.
const writtenSchema = "brim_format"

// written are the buckets in testdata, and the time at which they were written.
var (
	writtenAt = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	written   = map[string]store.Record{
		"level":   {Level: 7.5, Time: writtenAt.UnixMicro(), Limit: store.Limit{Capacity: 10, LeakRate: 0.25}},
		"held":    {Level: 1, Held: 2, Time: writtenAt.UnixMicro(), Limit: store.Limit{Capacity: 4}},
		"blocked": {Time: writtenAt.UnixMicro(), Limit: store.Limit{Capacity: 1, LeakRate: 1}, BlockedUntil: writtenAt.Add(time.Hour).UnixMicro()},
		"é'\n":    {Level: 1 << 52, Time: writtenAt.UnixMicro() + 1, Limit: store.Limit{Capacity: 1 << 53, LeakRate: 1e-12}},
	}
)

// TestSchemasOfEarlierVersions reads buckets that earlier versions of brim have stored, after
// migrations have brought their schema up to date.
func TestSchemasOfEarlierVersions(t *testing.T) {
	if *update {
		writeFormat(t)
	}
	files, err := filepath.Glob("testdata/schema*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata, %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			pool, schema := pgtest.Pool(t), pgtest.Schema(t)
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pool.Exec(t.Context(), strings.ReplaceAll(string(script), writtenSchema, schema)); err != nil {
				t.Fatal(err)
			}
			if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
				t.Fatal(err)
			}
			s := over(t, pool, postgres.Options{Schema: schema, Clock: func() time.Time { return writtenAt.Add(2 * time.Second) }})
			page := list(t, s, "")
			if len(page) != len(written) {
				t.Fatalf("%d buckets; want %d", len(page), len(written))
			}
			for _, e := range page {
				want := written[e.Key].State(store.Limit{}, writtenAt.Add(2*time.Second).UnixMicro(), store.DefaultMaxSkew)
				if d := differ.Fields(e.State, want); d != "" {
					t.Errorf("%q:\n%s", e.Key, d)
				}
			}
			// The bucket takes fills as before.
			b := store.Limit{Capacity: 10, LeakRate: 0.25}.For("level")
			if st, err := s.Fill(t.Context(), store.Op{Bucket: b, Amount: 3}); err != nil || !st.Accepted || st.Level != 10 || !st.Full {
				t.Errorf("a fill of 3 on top of 7: %+v, %v", st, err)
			}
		})
	}
}

// writeFormat writes a script that makes the schema of the newest migrations with some buckets.
func writeFormat(t *testing.T) {
	script, err := migrations.SQL(&migrations.Options{Schema: writtenSchema})
	if err != nil {
		t.Fatal(err)
	}
	status, err := migrations.CurrentStatus(t.Context(), pgtest.Pool(t), &migrations.Options{Schema: pgtest.Schema(t)})
	if err != nil {
		t.Fatal(err)
	}
	b := new(strings.Builder)
	b.WriteString(script)
	for key, r := range written {
		blocked := "NULL"
		if r.BlockedUntil != 0 {
			blocked = "'" + time.UnixMicro(r.BlockedUntil).UTC().Format(time.RFC3339Nano) + "'"
		}
		fmt.Fprintf(b, "INSERT INTO %s.buckets (level, atime, held, capacity, leak_rate, blocked_until, key) VALUES (%v, '%s', %v, %v, %v, %s, '%s');\n",
			writtenSchema, r.Level, time.UnixMicro(r.Time).UTC().Format(time.RFC3339Nano), r.Held, r.Capacity, r.LeakRate, blocked, strings.ReplaceAll(key, "'", "''"))
	}
	name := fmt.Sprintf("testdata/schema%d.sql", status.Latest)
	if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
