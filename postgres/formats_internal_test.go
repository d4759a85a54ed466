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
			s, err := New(pool, &Options{Schema: schema, Clock: func() time.Time { return writtenAt.Add(2 * time.Second) }})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			found, err := s.records(t.Context(), pool, slices.Collect(maps.Keys(written)))
			if err != nil {
				t.Fatal(err)
			}
			if d := differ.Fields(found.rows, written); d != "" {
				t.Errorf("the buckets differ from those that were written:\n%s", d)
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
	_, pool, schema := ownTable(t, Options{})
	keys := slices.Sorted(maps.Keys(written))
	recs := make([]store.Record, len(keys))
	for i, key := range keys {
		recs[i] = written[key]
	}
	put(t, pool, schema, keys, recs)
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
