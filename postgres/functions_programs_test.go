package postgres_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/supervisor"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// blocks returns the code of a page in a language.
func blocks(t *testing.T, page, language string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		list = append(list, m[1])
	}
	if len(list) == 0 {
		t.Fatalf("%s has no code in %s", page, language)
	}
	return list
}

// run runs a program, and returns its output.
func run(t *testing.T, input string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(os.Environ(), "DATABASE_URL="+pgtest.URL(t))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command[0], err, out)
	}
	return string(out)
}

// runs returns a program of Debian that runs the code, or else installs the package that the code
// needs.
func runs(t *testing.T, pkg, program, code string) string {
	t.Helper()
	check := func() ([]byte, error) {
		return exec.CommandContext(t.Context(), program, code[:2], code[3:]).CombinedOutput()
	}
	if _, err := check(); err == nil {
		return program
	}
	if err := supervisor.Install(os.Stderr, pkg); err != nil {
		t.Fatalf("this test needs %s of Debian: %v", pkg, err)
	}
	if out, err := check(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	return program
}

// TestPsql runs the commands of docs/sql.md by psql.
func TestPsql(t *testing.T) {
	schema := migrated(t)
	psql, err := supervisor.Find(os.Stderr, "postgresql-client", "psql")
	if err != nil {
		t.Fatalf("this test needs psql, which comes with PostgreSQL: %v", err)
	}
	for i, sql := range blocks(t, "../docs/sql.md", "sql") {
		out := run(t, strings.ReplaceAll(sql, "brim.", schema+"."), psql, "-XqAt", "-v", "ON_ERROR_STOP=1", pgtest.URL(t))
		if want := blocks(t, "../docs/sql.md", "text"); i < len(want) {
			if out = strings.ReplaceAll(out, "\r", ""); out != want[i] {
				t.Errorf("psql prints %q; docs/sql.md %q", out, want[i])
			}
		}
	}
}

// TestLanguages runs the programs of docs/sql.md, and the throttle of docs/from/pecorino.md beside
// a program in Go. It installs the libraries where they are missing.
func TestLanguages(t *testing.T) {
	if os.Getenv("BRIM_TORTURE") != "1" {
		t.Skip("BRIM_TORTURE=1 runs the programs in Python and Ruby")
	}
	python := runs(t, "python3-psycopg", "/usr/bin/python3", "-c import psycopg")
	ruby := runs(t, "ruby-pg", "/usr/bin/ruby", `-e require "pg"`)
	schema := migrated(t)
	in := func(code string) string { return strings.ReplaceAll(code, "brim.", schema+".") }
	if got := run(t, in(blocks(t, "../docs/sql.md", "python")[0]), python, "-"); got != "True 0:00:00\n" {
		t.Errorf("Python prints %q", got)
	}
	if got := run(t, in(blocks(t, "../docs/sql.md", "ruby")[0]), ruby, "-"); got != "true\n00:00:00\n" {
		t.Errorf("Ruby prints %q", got)
	}
	s := over(t, pgtest.Pool(t), postgres.Options{Schema: schema})
	limit := store.Limit{Capacity: 300}
	var inGo atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 4 * 300 {
			if st, err := s.Fill(t.Context(), op(limit.For("vault"), 1, store.IfFits)); err != nil {
				t.Error(err)
			} else if st.Accepted {
				inGo.Add(1)
			}
		}
	})
	var inRuby int64
	program := in(blocks(t, "../docs/from/pecorino.md", "ruby")[1]) + `
throttle = Throttle.new(PG.connect(ENV["DATABASE_URL"]), key: "vault", limit: "300@0")
puts 300.times.count { begin; throttle.request!; true; rescue Throttle::Throttled; false; end }
`
	if _, err := fmt.Sscan(run(t, program, ruby, "-"), &inRuby); err != nil {
		t.Error(err)
	}
	wg.Wait()
	t.Logf("Go was granted %d, and Ruby %d", inGo.Load(), inRuby)
	if sum := inGo.Load() + inRuby; sum != 300 || inRuby == 0 {
		t.Errorf("Go was granted %d, and Ruby %d; want 300 together, and some in Ruby", inGo.Load(), inRuby)
	}
}

// BenchmarkFunction has a lone caller fill a bucket by the function, in turns with a bare UPDATE of
// its row. It reports the rates, and the part of the rate of the UPDATE that the function reaches.
func BenchmarkFunction(b *testing.B) {
	const turn = 250 * time.Millisecond
	pool := pgtest.PoolAt(b, pgtest.With(b, "pool_max_conns=1"))
	schema := migrated(b)
	var calls, took [3]float64
	statements := [3]string{
		"UPDATE " + table(b, schema) + " SET level = level + 1 WHERE key = $1",
		"SELECT * FROM " + schema + ".try_fillup($1, 1, 1e12, 1)",
		"SELECT * FROM " + schema + ".try_fillup($1, 1, '1e12/month@UTC')",
	}
	run := func() {
		for i, sql := range statements {
			begin := time.Now()
			for time.Since(begin) < turn {
				execute(b, pool, sql, fmt.Sprint("k", i))
				calls[i]++
			}
			took[i] += time.Since(begin).Seconds()
		}
	}
	execute(b, pool, "SELECT "+schema+".try_fillup('k0', 1, 1e12, 1)")
	run()
	calls, took = [3]float64{}, [3]float64{}
	for b.Loop() {
		run()
	}
	b.ReportMetric(0, "ns/op")
	for i, name := range []string{"updates/s", "functions/s", "quotas/s"} {
		b.ReportMetric(calls[i]/took[i], name)
	}
	b.ReportMetric(calls[1]/took[1]/(calls[0]/took[0]), "ratio")
	b.ReportMetric(calls[2]/took[2]/(calls[0]/took[0]), "ratio-quota")
}
