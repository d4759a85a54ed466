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
		{"what fits is inserted and charged for", 700, "inserted 700 rows; room for 300 more", 700},
		{"what does not fit is not there either", 400, "refused: come back in ", 700},
		{"what never fits gets no wait that would be followed for ever", 1001, "refused: 1001 rows can never fit", 700},
		{"a refusal has cost nothing", 300, "inserted 300 rows; room for ", 1000},
	} {
		var out bytes.Buffer
		err := run(t.Context(), []string{"-database", pgtest.URL(t), "-schema", schema, "-rows", fmt.Sprint(step.rows)}, &out)
		if err != nil || !strings.HasPrefix(out.String(), step.want) {
			t.Fatalf("%d rows: %q, %v; want %q: %s", step.rows, out.String(), err, step.want, step.why)
		}
		if n := stored(); n != step.all {
			t.Fatalf("%d rows are stored, want %d: %s", n, step.all, step.why)
		}
	}
}

// However many insert at once, there are never more rows than were charged for.
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
			err := run(context.Background(), []string{"-database", pgtest.URL(t), "-schema", schema, "-rows", "300"}, &out)
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
		t.Errorf("%d rows are stored and %d were reported; 900 of 1,000 fit in batches of 300", stored, inserted)
	}
}
