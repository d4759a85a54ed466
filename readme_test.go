package brim_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/postgres"
)

// What the README shows is here word for word, so that it compiles and does what it says: TestReadme compares.

// Row is what the README's handler inserts.
type Row struct{ Broken bool }

func handler(lim *brim.Limiter, insert func(rows []Row) error) http.HandlerFunc {
	// 10,000 rows at once, and 500 rows a second after that, for each tenant.
	inserts := brim.Limit{Capacity: 10_000, LeakRate: 500}

	return func(w http.ResponseWriter, r *http.Request) {
		var rows []Row
		if err := json.NewDecoder(r.Body).Decode(&rows); err != nil {
			http.Error(w, "not a list of rows", http.StatusBadRequest)
			return
		}
		st, err := lim.TryFillup(r.Context(), inserts.For("tenant:"+r.PathValue("tenant")), float64(len(rows)))
		switch {
		case err != nil: // the store failed: the limit has said nothing, so you decide what that means
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		case st.RetryAfter == brim.Never: // more rows than the bucket holds when it is empty
			http.Error(w, "too many rows in one batch", http.StatusRequestEntityTooLarge)
		case !st.Accepted: // nothing went in
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(st.RetryAfter.Seconds()))))
			http.Error(w, "too many rows", http.StatusTooManyRequests)
		default: // the rows are paid for, atomically and durably
			if err := insert(rows); err != nil {
				http.Error(w, "not inserted", http.StatusInternalServerError)
			}
		}
	}
}

func openForReadme(serve func(*brim.Limiter)) error {
	db, err := bolt.Open("limits.db", nil) // or memory.New(nil)
	if err != nil {
		return err
	}
	defer db.Close()
	lim := brim.New(db, nil)
	serve(lim)
	return nil
}

func openPostgresForReadme(pool *pgxpool.Pool) error {
	db, err := postgres.New(pool, nil) // the pool stays yours
	if err != nil {
		return err
	}
	return db.Close()
}

func TestReadmeOpensPostgres(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := openPostgresForReadme(pool); err != nil {
		t.Errorf("opening sends nothing, and so cannot fail: %v", err)
	}
}

func TestReadmeCodeWorks(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, restart := range []bool{false, true} {
		err := openForReadme(func(lim *brim.Limiter) {
			inserted := 0
			h := http.NewServeMux()
			h.Handle("POST /{tenant}", handler(lim, func(rows []Row) error {
				inserted += len(rows)
				if rows[0].Broken {
					return errors.New("broken")
				}
				return nil
			}))
			post := func(rows []Row, status int) {
				t.Helper()
				body, err := json.Marshal(rows)
				if err != nil {
					t.Fatal(err)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/42", bytes.NewReader(body)))
				if w.Code != status || (status == http.StatusTooManyRequests) != (w.Header().Get("Retry-After") != "") {
					t.Errorf("%d rows, restarted %v: %d, Retry-After %q; want %d", len(rows), restart, w.Code, w.Header().Get("Retry-After"), status)
				}
			}
			if !restart {
				post([]Row{{Broken: true}}, http.StatusInternalServerError)
				post(make([]Row, 9_999), http.StatusOK)
			}
			post(make([]Row, 10_001), http.StatusRequestEntityTooLarge)
			post(make([]Row, 10_000), http.StatusTooManyRequests) // the file remembers
			if want := map[bool]int{false: 10_000}[restart]; inserted != want {
				t.Errorf("%d rows were inserted, restarted %v; want %d", inserted, restart, want)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	closed := handler(brim.New(nil, nil), nil)
	w := httptest.NewRecorder()
	closed(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("[]")))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("without a store: %d; want %d", w.Code, http.StatusServiceUnavailable)
	}
}

func TestReadme(t *testing.T) {
	readme, makefile := read(t, "README.md"), read(t, "Makefile")
	source := flat(read(t, "readme_test.go") + read(t, "examples/chargedinsert/main.go"))
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(readme, -1)
	if len(blocks) < 2 {
		t.Errorf("the README has %d blocks of Go; want those that open a store and handle a refusal", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(source, flat(block[1])) {
			t.Errorf("this block of the README is in no program, so nothing compiles it:\n%s", block[1])
		}
	}
	for _, m := range regexp.MustCompile(`\bmake ([a-z-]+)`).FindAllStringSubmatch(strings.Join(regexp.MustCompile("(?s)```sh\n.*?```|`make [a-z-]+`").FindAllString(readme, -1), "\n"), -1) {
		if !strings.Contains(makefile, "\n"+m[1]+":") {
			t.Errorf("the README says %q, which the Makefile does not know", m[0])
		}
	}
	for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)|(?:go run|replay) (\S*/\S+)`).FindAllStringSubmatch(readme, -1) {
		path := strings.TrimPrefix(m[1]+m[2], "./")
		if _, err := os.Stat(path); err != nil {
			t.Errorf("the README names %s: %v", path, err)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// flat is a text without indentation.
func flat(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
