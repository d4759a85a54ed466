package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestRun(t *testing.T) {
	schema := pgtest.Schema(t)
	pool := pgtest.Pool(t)
	stored := func() (n int) {
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM "+pgx.Identifier{schema, "events"}.Sanitize()).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, step := range []struct {
		why  string
		rows int
		want string
		all  int
	}{
		{"rows that fit are inserted and charged", 700, "inserted 700 rows; room for 300 more", 700},
		{"refused rows are not inserted", 400, "refused: come back in ", 700},
		{"rows that never fit get no wait, because the caller would wait forever", 1001, "refused: 1001 rows can never fit", 700},
		{"a refusal costs nothing", 300, "inserted 300 rows; room for ", 1000},
	} {
		var out bytes.Buffer
		err := run(t.Context(),
			[]string{"-database", pgtest.URL(t), "-schema", schema, "-rows", fmt.Sprint(step.rows)}, &out)
		if err != nil || !strings.HasPrefix(out.String(), step.want) {
			t.Fatalf("%d rows: %q, %v; want %q: %s", step.rows, out.String(), err, step.want, step.why)
		}
		if n := stored(); n != step.all {
			t.Fatalf("%d rows are stored, want %d: %s", n, step.all, step.why)
		}
	}
}

// A refused batch must not reach the table: its rows would stay there until a vacuum.
func TestRefusedBatchLeavesNoBloat(t *testing.T) {
	schema := pgtest.Schema(t)
	var out bytes.Buffer
	for _, rows := range []string{"0", "1001"} {
		out.Reset()
		if err := run(t.Context(), []string{"-database", pgtest.URL(t), "-schema", schema, "-rows", rows}, &out); err != nil {
			t.Fatal(err)
		}
	}
	var size int64
	err := pgtest.Pool(t).QueryRow(t.Context(), "SELECT pg_relation_size($1::text::regclass)",
		pgx.Identifier{schema, "events"}.Sanitize()).Scan(&size)
	if err != nil || size != 0 || !strings.HasPrefix(out.String(), "refused: ") {
		t.Errorf("%q; the table of events has %d bytes, %v; want a refusal and an empty file", out.String(), size, err)
	}
}

// Any number of concurrent callers insert no more rows than they are charged for.
func TestConcurrent(t *testing.T) {
	schema := pgtest.Schema(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	inserted := 0
	if err := run(t.Context(), []string{"-database", pgtest.URL(t), "-schema", schema, "-rows", "0"}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		wg.Go(func() {
			var out bytes.Buffer
			err := run(context.Background(),
				[]string{"-database", pgtest.URL(t), "-schema", schema, "-rows", "300"}, &out)
			if err != nil {
				t.Error(err)
			}
			if strings.HasPrefix(out.String(), "inserted") {
				mu.Lock()
				inserted += 300
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var stored int
	if err := pgtest.Pool(t).QueryRow(t.Context(), "SELECT count(*) FROM "+pgx.Identifier{schema, "events"}.Sanitize()).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if stored != 900 || inserted != 900 {
		t.Errorf("%d rows are stored and %d were reported, want 900 each: three batches of 300 fit into 1,000",
			stored, inserted)
	}
}
