package postgres

import (
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
