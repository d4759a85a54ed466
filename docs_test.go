package brim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/internal/docpage"
	"github.com/brimgo/brim/postgres"
)

// The code of docs/limiter.md and docs/postgres.md stands here word for word, so that it compiles
// and runs: TestDocsCode compares.

// Row is a row that the handler of docs/limiter.md inserts.
type Row struct{ Broken bool }

func handler(limiter *brim.Limiter, insert func(rows []Row) error) http.HandlerFunc {
	// 10,000 rows at once, and 500 rows a second after that, for each tenant.
	inserts := brim.Limit{Capacity: 10_000, LeakRate: 500}

	return func(w http.ResponseWriter, r *http.Request) {
		var rows []Row
		if err := json.NewDecoder(r.Body).Decode(&rows); err != nil {
			http.Error(w, "not a list of rows", http.StatusBadRequest)
			return
		}
		st, err := limiter.TryFillup(r.Context(), inserts.For("tenant:"+r.PathValue("tenant")), float64(len(rows)))
		switch {
		case err != nil: // the store failed: nothing was decided, and this handler refuses
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		case !st.Accepted: // nothing went in: 429 with Retry-After, or 413 for more rows than a bucket holds
			httplimit.Refuse(w, st, float64(len(rows)))
		default: // the rows are paid for, atomically and durably
			if err := insert(rows); err != nil {
				http.Error(w, "not inserted", http.StatusInternalServerError)
			}
		}
	}
}

// openInAnOutage serves rather than refuses while the store is out of reach.
func openInAnOutage(ctx context.Context, lim *brim.Limiter, b brim.Bucket, n float64) (bool, error) {
	st, err := lim.TryFillup(ctx, b, n)
	away := errors.Is(err, brim.ErrUnavailable) || errors.Is(err, brim.ErrUnknownOutcome)
	if away && ctx.Err() == nil { // a caller who has left tells nothing about the store
		return true, nil // the limit is open until the store is back
	}
	return st.Accepted, err
}

func openForDocs(serve func(*brim.Limiter)) error {
	db, err := bolt.Open("limits.db", nil) // or memory.New(nil)
	if err != nil {
		return err
	}
	defer db.Close()
	limiter := brim.New(db, nil)
	serve(limiter)
	return nil
}

func openPostgresForDocs(pool *pgxpool.Pool) error {
	db, err := postgres.New(pool, nil) // the pool stays yours
	if err != nil {
		return err
	}
	return db.Close()
}

func TestDocsOpenPostgres(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nowhere")
	noError(t, err)
	defer pool.Close()
	if err := openPostgresForDocs(pool); err != nil {
		t.Errorf("opening sends nothing, and so cannot fail: %v", err)
	}
}

func TestDocsHandler(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, restart := range []bool{false, true} {
		err := openForDocs(func(lim *brim.Limiter) {
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
				noError(t, err)
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
		noError(t, err)
	}
	closed := handler(brim.New(nil, nil), nil)
	w := httptest.NewRecorder()
	closed(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader("[]")))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("without a store: %d; want %d", w.Code, http.StatusServiceUnavailable)
	}
}

// docPages are the README and every page of the documentation.
func docPages(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"}
	for pattern, least := range map[string]int{"docs/*.md": 15, "docs/from/*.md": 8, "docs/internals/*.md": 5} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) < least {
			t.Fatalf("%s has the pages %v, %v; want at least %d", pattern, pages, err, least)
		}
		list = append(list, pages...)
	}
	return list
}

// Every block of Go in the documentation must stand in a program or a test, which compiles it.
func TestOpenInAnOutage(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx    context.Context
		err    error
		passes bool
	}{
		{t.Context(), brim.ErrUnavailable, true},
		{t.Context(), brim.ErrUnknownOutcome, true},
		{t.Context(), brim.ErrMisconfigured, false},
		{gone, brim.ErrUnknownOutcome, false},
	} {
		lim := brim.New(&broken{err: c.err}, nil)
		if passes, err := openInAnOutage(c.ctx, lim, brim.Over(1, time.Hour).For("k"), 1); passes != c.passes || (err == nil) != c.passes {
			t.Errorf("%v: passes %v, %v; want %v", c.err, passes, err, c.passes)
		}
	}
}

func TestDocsCode(t *testing.T) {
	var programs []string
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			programs = append(programs, flat(read(t, path)))
		}
		return err
	})
	noError(t, err)
	blocks := 0
	for _, page := range docPages(t) {
		for _, block := range regexp.MustCompile("(?s)```go[^\n]*\n(.*?)```").FindAllStringSubmatch(read(t, page), -1) {
			blocks++
			code := flat(block[1])
			if !slices.ContainsFunc(programs, func(program string) bool { return strings.Contains(program, code) }) {
				t.Errorf("this block of %s is in no program, so nothing compiles it:\n%s", page, block[1])
			}
		}
	}
	if blocks < 5 {
		t.Errorf("found %d blocks of Go; the search for them is broken", blocks)
	}
}

// The README begins with the program of examples/quickstart, whose test runs it. The README's
// first sentence must contain the words that people search for.
func TestReadme(t *testing.T) {
	readme := read(t, "README.md")
	program := read(t, "examples/quickstart/main.go")
	program = program[strings.Index(program, "package main"):]
	if block := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(readme); block == nil || block[1] != program {
		t.Errorf("the README's first block of Go differs from examples/quickstart/main.go")
	}
	intro := strings.SplitN(readme, "\n", 4)[2]
	for _, word := range []string{"rate limiter", "spend limiter"} {
		if !strings.Contains(intro, word) {
			t.Errorf("the README's first sentence is %q; want %q in it", intro, word)
		}
	}
	var sources strings.Builder
	for _, path := range []string{"example_wants_test.go", "lab/llm/docs_test.go", "riverlimit/example_test.go"} {
		sources.WriteString(read(t, path))
	}
	wants := regexp.MustCompile("(?m)^\\| [a-zA-Z].* \\| `(.*)` \\| \\[.*\\) \\|$").FindAllStringSubmatch(readme, -1)
	if len(wants) < 12 {
		t.Errorf("found %d lines of code in the table of wants; want at least 12", len(wants))
	}
	for _, want := range wants {
		if !strings.Contains(sources.String(), want[1]) {
			t.Errorf("no program has the line %s of the table of wants", want[1])
		}
	}
	if n := strings.Count(readme, "\n"); n > 150 {
		t.Errorf("the README has %d lines; want at most 150", n)
	}
}

// TestComposeHeader runs the command that the header of docker-compose.yml tells for a machine that
// pulls no image, without Docker: the script accepts the arguments, and misses the daemon.
func TestComposeHeader(t *testing.T) {
	m := regexp.MustCompile(`\$\(lab/itest/(image\.sh [^)]*)\)`).FindStringSubmatch(read(t, "docker-compose.yml"))
	if m == nil {
		t.Fatal("the header of docker-compose.yml has no command for an image")
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash here")
	}
	cmd := exec.Command(bash, strings.Fields(m[1])...)
	cmd.Dir, cmd.Env = "lab/itest", []string{"PATH=" + t.TempDir()}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "no Docker daemon answers") {
		t.Errorf("%s: %v\n%s", m[1], err, out)
	}
}

// heading matches a heading of a page, and its text.
var heading = regexp.MustCompile(`(?m)^(#+) (.*)$`)

// anchors returns the headings of a page at one level, or at all for 0, as links name them.
func anchors(t *testing.T, page string, level int) (list []string) {
	t.Helper()
	text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(read(t, page), "")
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		if level == 0 || len(m[1]) == level {
			name := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(m[2]), "")
			list = append(list, strings.ReplaceAll(name, " ", "-"))
		}
	}
	return list
}

// A page that is longer than three screens begins with a list of its sections.
func TestDocsContents(t *testing.T) {
	for _, page := range docPages(t) {
		text, sections := read(t, page), anchors(t, page, 2)
		if !strings.HasPrefix(page, "docs/") || strings.Count(text, "\n") <= 125 || len(sections) < 4 {
			continue
		}
		var listed []string
		contents := regexp.MustCompile(`(?ms)^On this page:.*?\n\n`).FindString(text)
		for _, m := range regexp.MustCompile(`\(#([^)]+)\)`).FindAllStringSubmatch(contents, -1) {
			listed = append(listed, m[1])
		}
		if !slices.Equal(listed, sections) {
			t.Errorf("%s lists the sections %v under \"On this page:\"; it has %v", page, listed, sections)
		}
	}
}

// Every make target, file, directory and heading that the documentation names must exist.
func TestDocsNames(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, page := range docPages(t) {
		text := read(t, page)
		code := strings.Join(regexp.MustCompile("(?s)```sh\n.*?```|`make [a-z-]+").FindAllString(text, -1), "\n")
		for _, m := range regexp.MustCompile(`\bmake ([a-z-]+)`).FindAllStringSubmatch(code, -1) {
			if !strings.Contains(makefile, "\n"+m[1]+":") {
				t.Errorf("%s says %q, which the Makefile does not know", page, m[0])
			}
		}
		text = regexp.MustCompile("(?s)```go\n.*?```").ReplaceAllString(text, "") // f[T](x) is no link
		for _, m := range regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`).FindAllStringSubmatch(text, -1) {
			file := filepath.Join(filepath.Dir(page), m[1])
			if m[1] == "" {
				file = page
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			} else if m[2] != "" && !slices.Contains(anchors(t, file, 0), m[2]) {
				t.Errorf("%s links to the heading %s of %s, which has none of that name", page, m[2], file)
			}
		}
	}
}

// The pages about the internals name functions with the file in which each stands, tests, and cases
// of the conformance suite, and other pages name tests. They must be there.
func TestInternals(t *testing.T) {
	named := 0
	is := func(page, file, pattern string) {
		t.Helper()
		named++
		if !regexp.MustCompile(pattern).MatchString(read(t, file)) {
			t.Errorf("%s says that %s has %s", page, file, pattern)
		}
	}
	pages, err := filepath.Glob("docs/internals/*.md")
	noError(t, err)
	for _, page := range pages {
		text := read(t, page)
		sections := strings.Split(text, "\n## ")
		last := sections[len(sections)-1]
		if !strings.HasPrefix(last, "To change\n") {
			t.Errorf("%s does not end with the section To change", page)
		}
		for _, m := range regexp.MustCompile("`([\\w.]*/?[\\w./]+)`").FindAllStringSubmatch(last, -1) {
			if _, err := os.Stat(m[1]); err != nil && strings.ContainsAny(m[1], "/") {
				t.Errorf("%s: %v", page, err)
			}
		}
		for _, m := range regexp.MustCompile(`\[([^\]]+)\]\((\S+/storetest/\S+\.(?:go|jsonl))\)`).FindAllStringSubmatch(text, -1) {
			if !strings.HasSuffix(m[2], "/"+m[1]) { // a case, and not the file
				is(page, filepath.Join(filepath.Dir(page), m[2]), `"`+regexp.QuoteMeta(m[1])+`"`)
			}
		}
		for _, row := range regexp.MustCompile(`(?m)^\| (.*) \| (\S+\.go) \|$`).FindAllStringSubmatch(text, -1) {
			for _, name := range regexp.MustCompile("`((\\w+)\\.)?(\\w+)`").FindAllStringSubmatch(row[1], -1) {
				receiver := ""
				if name[2] != "" {
					receiver = `\(\w+ \*?` + name[2] + `(\[[^\]]*\])?\) `
				}
				is(page, row[2], `(?m)^func `+receiver+name[3]+`(\[[^\]]*\])?\(`)
			}
		}
	}
	for _, page := range docPages(t) {
		for _, m := range regexp.MustCompile(`\[(Test\w+)\]\((\S+_test\.go)\)`).FindAllStringSubmatch(read(t, page), -1) {
			is(page, filepath.Join(filepath.Dir(page), m[2]), `(?m)^func `+m[1]+`\(t `)
		}
	}
	if named < 50 {
		t.Errorf("found %d names; the search for them is broken", named)
	}
}

// docs/internals/testing.md tells two figures of .ci/test.
func TestVerdict(t *testing.T) {
	script := regexp.MustCompile(`(?s)\nleast=(\d+) .*-timeout (\d+)m `).FindStringSubmatch(read(t, ".ci/test"))
	if script == nil {
		t.Fatal(".ci/test has no least share of statements and no timeout")
	}
	if lacks := docpage.Lacks("docs/internals/testing.md", "cover less than "+script[1]+" % of it", "a package has "+script[2]+" minutes"); lacks != "" {
		t.Error(lacks)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	noError(t, err)
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
