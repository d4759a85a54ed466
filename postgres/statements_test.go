package postgres

import (
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/store"
)

func defaultNames(t *testing.T) pgname.Names {
	t.Helper()
	names, err := pgname.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestLeakStandsOnce reads all SQL of the store. One file computes how a level falls, and a
// rendered statement has no placeholder left.
func TestLeakStandsOnce(t *testing.T) {
	render := renderer(defaultNames(t))
	placeholder := regexp.MustCompile(`\{+[a-z_']+[({}]`)
	var leaks []string
	err := fs.WalkDir(files, "sql", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if sql, _, _ := strings.Cut(line, "--"); strings.Contains(sql, "date_part") {
				leaks = append(leaks, path)
			}
		}
		if strings.HasPrefix(path, "sql/fragments/") {
			return nil
		}
		if left := placeholder.FindString(render(strings.TrimSuffix(strings.TrimPrefix(path, "sql/"), ".sql"))); left != "" {
			t.Errorf("%s: %s is left in the rendered statement", path, left)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(leaks) != 1 || leaks[0] != "sql/fragments/leaked.sql" {
		t.Errorf("%v compute a leak; want sql/fragments/leaked.sql alone, once", leaks)
	}
}

// TestFragmentsAgreeWithStore compares the fragments on a server with package store, bit for
// bit, over random buckets.
func TestFragmentsAgreeWithStore(t *testing.T) {
	const n = 50_000
	random := rand.New(rand.NewPCG(1, 2))
	records := make([]store.Record, n)
	levels, rates, written := make([]float64, n), make([]float64, n), make([]float64, n)
	clocks, times := make([]time.Time, n), make([]time.Time, n)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	for i := range records {
		r := &records[i]
		r.Level = math.Ldexp(random.Float64(), random.IntN(54))
		r.Time = noon + random.Int64N(1<<50)
		if random.IntN(10) == 0 {
			r.Level = 0
		}
		elapsed := random.Int64N(1 << random.IntN(50))
		switch random.IntN(8) {
		case 0:
			elapsed = 0
		case 1:
			elapsed = -elapsed // a clock that went back
		}
		// Most rates drain the level in about the time that passes, so that the last bits
		// matter.
		rates[i] = r.Level / (float64(elapsed) / 1e6) * 2 * random.Float64()
		if !(rates[i] >= 1e-12 && rates[i] <= 1<<53) || random.IntN(4) == 0 {
			rates[i] = math.Ldexp(random.Float64(), random.IntN(90)-39)
		}
		r.Limit = store.Limit{Capacity: 1, LeakRate: rates[i]}
		if written[i] = rates[i]; random.IntN(4) == 0 { // another rate than the one that is written now
			r.LeakRate *= 2
			written[i] = r.LeakRate
		}
		levels[i], times[i], clocks[i] = r.Level, time.UnixMicro(r.Time), time.UnixMicro(r.Time+elapsed)
	}
	sql := defaultNames(t).Statement("test", `
		SELECT {{leaked(t, t.clock)}}, {{time_to_store(t, t.rate, t.clock, {{leaked(t, t.clock)}})}},
		       {{fits(t, t.clock, 1::float8, t.level)}}
		FROM unnest($1::float8[], $2::timestamptz[], $3::float8[], $4::timestamptz[], $5::float8[])
		     WITH ORDINALITY AS u (level, atime, leak_rate, clock, rate, i)
		     CROSS JOIN LATERAL (SELECT u.level, u.atime, 2::float8 AS held, u.leak_rate, u.rate, u.clock) AS t
		ORDER BY i`, fragments())
	rows, err := pgtest.Pool(t).Query(t.Context(), sql, levels, times, written, clocks, rates)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	var left float64
	var at time.Time
	var fits bool
	_, err = pgx.ForEachRow(rows, []any{&left, &at, &fits}, func() error {
		r, clock := records[i], clocks[i].UnixMicro()
		want := r.LevelAt(clock)
		if math.Float64bits(left) != math.Float64bits(want) {
			t.Errorf("%v of %+v are left at rate %v after %d µs; package store says %v", left, r, rates[i], clock-r.Time, want)
		}
		if want := want+2+1 <= r.Level; fits != want {
			t.Errorf("%+v at rate %v after %d µs: fits is %v; package store says %v", r, rates[i], clock-r.Time, fits, want)
		}
		filled := r
		op := store.Op{Bucket: store.Limit{Capacity: 1 << 60, LeakRate: rates[i]}.For("k"), Amount: 1, Mode: store.Always}
		if _, _, err := filled.Fill(&op, clock, math.MaxInt64); err != nil {
			return err
		}
		if at.UnixMicro() != filled.Time {
			t.Errorf("%+v at rate %v after %d µs is stored with the time %d; package store says %d", r, rates[i], clock-r.Time, at.UnixMicro(), filled.Time)
		}
		i++
		if t.Failed() {
			return fmt.Errorf("case %d", i)
		}
		return nil
	})
	if err != nil || i != n {
		t.Errorf("%d of %d rows, %v", i, n, err)
	}
}

// TestRenderedStatementsArePrepared sends every statement of the store over one connection. The
// server has then prepared the rendered texts, and no other text of the store's.
func TestRenderedStatementsArePrepared(t *testing.T) {
	schema := pgtest.Schema(t)
	if err := migrations.Up(t.Context(), pgtest.Pool(t), &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	cfg := pgtest.Pool(t).Config()
	cfg.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	s, err := New(pool, &Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	request := func(key string) *fillRequest {
		return &fillRequest{In: store.Op{Bucket: store.Limit{Capacity: 10, LeakRate: 1}.For(key), Amount: 1}}
	}
	one := []group{{reqs: []*fillRequest{request("a")}}}
	several := []group{{reqs: []*fillRequest{request("a"), request("a")}}, {reqs: []*fillRequest{request("b")}}}
	for _, groups := range [][]group{one, several} {
		for _, reach := range []reach{alone, asking, whole} {
			if _, err := s.send(t.Context(), pool, groups, reach, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	none := []float64{}
	if _, err := pool.Exec(t.Context(), s.sql.Load().lockSkip, []string{}, []int32{}, none, none, none, nil, s.maxSkew, nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Size(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), store.Txn{request("a").In}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), store.Bucket{Key: "a"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Visit(t.Context(), "", func(store.Entry) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if _, err := pool.Exec(t.Context(), "UPDATE "+schema+".buckets SET atime = atime - interval '1 day'"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), "a", "b"); err != nil {
		t.Fatal(err)
	}

	rows, err := pool.Query(t.Context(), "SELECT statement FROM pg_prepared_statements")
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := reflect.ValueOf(*s.sql.Load())
	rendered := make(map[string]bool)
	for i := range want.NumField() {
		text := want.Field(i).String()
		rendered[text] = true
		if !slices.Contains(prepared, text) {
			t.Errorf("the server has not prepared %s:\n%s", want.Type().Field(i).Name, text)
		}
	}
	for _, text := range prepared {
		if strings.Contains(text, "brim:buckets.") && !rendered[text] {
			t.Errorf("the server has prepared a text that is not one of the store's statements:\n%s", text)
		}
	}
}
