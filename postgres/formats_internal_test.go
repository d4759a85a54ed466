package postgres

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
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
		"quota":   {Level: 7, Time: writtenAt.UnixMicro(), Limit: store.Limit{Capacity: 10, LeakRate: -float64(writtenAt.Add(time.Hour).UnixMicro())}},
		"é'\n":    {Level: 1 << 52, Time: writtenAt.UnixMicro() + 1, Limit: store.Limit{Capacity: 1 << 53, LeakRate: 1e-12}},
	}
)

// TestSchemasOfEarlierVersions reads buckets that earlier versions of brim have stored, after
// migrations have brought their schema up to date.
func TestSchemasOfEarlierVersions(t *testing.T) {
	t.Parallel()
	if *update {
		writeFormat(t)
	}
	files, err := filepath.Glob("testdata/schema*.sql")
	if err != nil || len(files) != pgname.Latest {
		t.Fatalf("testdata has %d of %d schemas, %v; -update writes the newest", len(files), pgname.Latest, err)
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
			s, err := New(pool, &Options{Schema: schema, Clock: func() time.Time { return writtenAt.Add(2 * time.Second) }})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			keys := slices.Sorted(maps.Keys(written))
			found, err := s.records(t.Context(), pool, keys)
			if err != nil {
				t.Fatal(err)
			}
			if d := differ.Fields(found.rows, written); d != "" {
				t.Errorf("the buckets differ from those that were written:\n%s", d)
			}
			wantAsWritten(t, s, pool, schema, keys, recordsOf(keys))
			// The buckets take fills as before.
			for key, rec := range written {
				op := store.Op{Bucket: rec.Limit.For(key), Amount: 1}
				if key == "quota" {
					op.Begins = writtenAt.UnixMicro()
				}
				want, _, err := rec.Fill(&op, found.clock, s.maxSkew)
				if err != nil {
					t.Fatal(err)
				}
				st, err := s.Fill(t.Context(), op)
				if d := differ.Fields(st, want); err != nil || d != "" {
					t.Errorf("a fill of %q, %v:\n%s", key, err, d)
				}
				left, err := s.records(t.Context(), pool, []string{key})
				if d := differ.Fields(left.rows, map[string]store.Record{key: rec}); err != nil || d != "" {
					t.Errorf("the row after a fill, %v:\n%s", err, d)
				}
			}
		})
	}
}

// recordsOf returns the written records of keys.
func recordsOf(keys []string) []store.Record {
	recs := make([]store.Record, len(keys))
	for i, key := range keys {
		recs[i] = written[key]
	}
	return recs
}

// writeFormat writes a script that makes the schema of the newest migrations with some buckets.
func writeFormat(t *testing.T) {
	script, err := migrations.SQL(&migrations.Options{Schema: writtenSchema})
	if err != nil {
		t.Fatal(err)
	}
	_, pool, schema := ownTable(t, Options{})
	keys := slices.Sorted(maps.Keys(written))
	put(t, pool, schema, keys, recordsOf(keys))
	var rows string
	err = pool.QueryRow(t.Context(), fmt.Sprintf(`SELECT string_agg('INSERT INTO %[1]s.buckets '
		'SELECT * FROM jsonb_populate_record(NULL::%[1]s.buckets, ' || quote_literal(to_jsonb(t)) || E');\n', '' ORDER BY key)
		FROM %[2]s.buckets AS t`, writtenSchema, schema)).Scan(&rows)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("testdata/schema%d.sql", pgname.Latest)
	if err := os.WriteFile(name, []byte(script+rows), 0o644); err != nil {
		t.Fatal(err)
	}
}
