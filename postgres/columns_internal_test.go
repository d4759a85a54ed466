package postgres

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/store"
)

// unlike returns the record with a number of its own in each field that is zero: a statement that
// forgets a column shows.
func unlike(r store.Record) store.Record {
	n := 0
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		for _, f := range v.Fields() {
			n++
			switch {
			case f.Kind() == reflect.Struct:
				fill(f)
			case !f.CanSet() || !f.IsZero():
			case f.CanFloat():
				f.SetFloat(float64(n))
			default:
				f.SetInt(int64(n)) // as a time, some microseconds of 1970: a block that is over
			}
		}
	}
	fill(reflect.ValueOf(&r).Elem())
	return r
}

// put makes rows of records.
func put(t *testing.T, pool *pgxpool.Pool, schema string, keys []string, recs []store.Record) {
	t.Helper()
	names, err := pgname.New(schema, "")
	if err != nil {
		t.Fatal(err)
	}
	sql := names.Statement("test", `INSERT INTO {{schema}}.{{table}}
		SELECT r.* FROM {{rows(u)}} CROSS JOIN LATERAL jsonb_populate_record(NULL::{{schema}}.{{table}}, to_jsonb(u)) AS r`, fragments())
	if _, err := pool.Exec(t.Context(), sql, arguments(keys, recs)...); err != nil {
		t.Fatal(err)
	}
}

// wantAsWritten fails the test if a row differs in a column from that which write.sql makes of its
// record. A column that is null reads as zero, so only the rows themselves show the difference.
func wantAsWritten(t *testing.T, s *Store, pool *pgxpool.Pool, schema string, keys []string, recs []store.Record) {
	t.Helper()
	rows := func() (found map[string]map[string]any) {
		sql := "SELECT jsonb_object_agg(key, to_jsonb(b)) FROM " + schema + ".buckets AS b WHERE key = ANY ($1)"
		if err := pool.QueryRow(t.Context(), sql, keys).Scan(&found); err != nil {
			t.Fatal(err)
		}
		return found
	}
	before := rows()
	if _, err := pool.Exec(t.Context(), s.sql.Load().write, arguments(keys, recs)...); err != nil {
		t.Fatal(err)
	}
	if d := differ.Fields(before, rows()); d != "" || len(before) != len(keys) {
		t.Errorf("%d of %d rows; write.sql makes other rows of their records:\n%s", len(before), len(keys), d)
	}
}

// TestDefaults makes a row by an INSERT that names only the columns that it must name. The others
// must have the values of a new record, as write.sql stores them.
func TestDefaults(t *testing.T) {
	s, pool, schema := ownTable(t, Options{})
	rec := store.NewRecord(12345)
	rec.Limit = store.Limit{Capacity: 10, LeakRate: 0.5}
	put(t, pool, schema, []string{"full"}, []store.Record{rec})
	var named string
	err := pool.QueryRow(t.Context(), `SELECT string_agg(attname, ', ') FROM pg_attribute
		WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attnotnull AND NOT atthasdef AND attname <> 'key'`,
		schema+".buckets").Scan(&named)
	if err != nil {
		t.Fatal(err)
	}
	sql := fmt.Sprintf("INSERT INTO %[1]s.buckets (key, %[2]s) SELECT 'short', %[2]s FROM %[1]s.buckets", schema, named)
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
	found, err := s.records(t.Context(), pool, []string{"short"})
	if d := differ.Fields(found.rows, map[string]store.Record{"short": rec}); err != nil || d != "" {
		t.Errorf("an INSERT of %s, %v:\n%s", named, err, d)
	}
	wantAsWritten(t, s, pool, schema, []string{"short"}, []store.Record{rec})
}

// TestReadsAgree has each call that reads buckets report the same states, which are those of
// package store, from records that have a value in each field.
func TestReadsAgree(t *testing.T) {
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s, pool, schema := ownTable(t, Options{Clock: func() time.Time { return clock }})
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	rec := unlike(store.Record{Level: 99, Time: clock.Add(-time.Second).UnixMicro(), BlockedUntil: clock.Add(time.Hour).UnixMicro()})
	put(t, pool, schema, []string{"a"}, []store.Record{rec})
	want := rec.State(store.Limit{}, clock.UnixMicro(), s.maxSkew)
	for name, st := range map[string]store.Store{"the store": s, "With": s.With(tx)} {
		read, err := st.Read(t.Context(), store.Bucket{Key: "a"})
		if d := differ.Fields(read, []store.State{want}); err != nil || d != "" {
			t.Errorf("%s: Read, %v:\n%s", name, err, d)
		}
		var visited []store.Entry
		err = st.Visit(t.Context(), "", func(e store.Entry) bool { visited = append(visited, e); return true })
		if d := differ.Fields(visited, []store.Entry{{Key: "a", State: want}}); err != nil || d != "" {
			t.Errorf("%s: Visit, %v:\n%s", name, err, d)
		}
	}
}

// TestColumns compares the list of columns with the table, and with the fields of a record: the
// statements that store and read whole rows must lose none. TestTriesAnswerAsStore has the others.
func TestColumns(t *testing.T) {
	s, pool, schema := ownTable(t, Options{})
	found := map[string]string{}
	rows, _ := pool.Query(t.Context(), `SELECT attname::text, typname::text FROM pg_attribute JOIN pg_type AS t ON t.oid = atttypid
		WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped`, schema+".buckets")
	var name, is string
	if _, err := pgx.ForEachRow(rows, []any{&name, &is}, func() error { found[name] = is; return nil }); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"key": "text", "pre": "float8"}
	for _, c := range columns {
		want[c.name] = c.sql
	}
	if d := differ.Fields(found, want); d != "" {
		t.Errorf("the table differs from the list of columns:\n%s", d)
	}

	keys, recs := []string{"a", "b"}, []store.Record{unlike(store.Record{}), unlike(store.Record{Held: 99})}
	put(t, pool, schema, keys, []store.Record{store.NewRecord(1), store.NewRecord(1)})
	if _, err := pool.Exec(t.Context(), s.sql.Load().write, arguments(keys, recs)...); err != nil {
		t.Fatal(err)
	}
	now := time.UnixMicro(12345)
	for statement, query := range map[string]struct {
		sql  string
		args []any
	}{
		"read.sql": {s.sql.Load().read, []any{keys, now}},
		"page.sql": {s.sql.Load().page, []any{"", "", 2, now, nil}},
	} {
		rows, err := pool.Query(t.Context(), query.sql, query.args...)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for rows.Next() {
			key, rec, clock, err := readStored(rows)
			if err != nil || key != keys[n] || clock != now.UnixMicro() {
				t.Errorf("%s: key %s, clock %d, %v; want %s and %d", statement, key, clock, err, keys[n], now.UnixMicro())
			}
			if d := differ.Fields(rec, recs[n]); d != "" {
				t.Errorf("write.sql has stored a record, and %s reads another:\n%s", statement, d)
			}
			n++
		}
		if err := rows.Err(); err != nil || n != len(keys) {
			t.Errorf("%s: %d rows, %v; want %d", statement, n, err, len(keys))
		}
	}
}
