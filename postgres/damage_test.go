package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// damages are assignments to columns that no call makes.
var damages = []string{
	"level = 'NaN'", "level = 'Infinity'", "level = '-Infinity'", "level = -1", "level = 1e300",
	"held = 'NaN'", "held = 'Infinity'", "held = '-Infinity'", "held = -1", "held = 1e300",
	"capacity = 'NaN'", "capacity = 'Infinity'", "capacity = '-Infinity'", "capacity = -1", "capacity = 1e16",
	"leak_rate = 'NaN'", "leak_rate = 'Infinity'", "leak_rate = '-Infinity'", "leak_rate = -1", "leak_rate = 1e-13", "leak_rate = 1e16",
	"atime = 'infinity'", "atime = '-infinity'", "atime = '4000-01-01 BC'", "atime = '290000-01-01'",
	"blocked_until = 'infinity'", "blocked_until = '-infinity'", "blocked_until = '4000-01-01 BC'", "blocked_until = '2300-01-01'",
	"capacity = 0, leak_rate = 0", "level = 1e308, held = 1e308", "held = '-Infinity', atime = '-infinity'",
}

// TestDamagedRow has every call refuse a row that no call can have written, and change nothing of
// it. Buckets beside it are served.
func TestDamagedRow(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	schema := migrated(t)
	s := over(t, pool, postgres.Options{Schema: schema, PruneEvery: -1})
	// A statement reads pre only where it has set it.
	for _, column := range scalar[[]string](t, pool, `SELECT array_agg(attname::text) FROM pg_attribute
		WHERE attrelid = '`+table(t, schema)+`'::regclass AND attnum > 0 AND NOT attisdropped AND attname NOT IN ('key', 'pre')`) {
		if !slices.ContainsFunc(damages, func(damage string) bool { return strings.HasPrefix(damage, column+" = ") }) {
			t.Errorf("no damage of the column %s is tried", column)
		}
	}
	for _, damage := range damages {
		t.Run(damage, func(t *testing.T) { damagedRow(t, pool, table(t, schema), s, damage) })
	}
}

func damagedRow(t *testing.T, pool *pgxpool.Pool, table string, s *postgres.Store, damage string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	limit := store.Limit{Capacity: 1000, LeakRate: 1}
	execute(t, pool, "DELETE FROM "+table)
	// Without the damage, all of these rows have expired.
	execute(t, pool, "INSERT INTO "+table+` (level, atime, capacity, leak_rate, key)
		SELECT 5, now() - interval '1 day', 1000, 1, unnest('{a,bad,z,zz}'::text[])`)
	execute(t, pool, "UPDATE "+table+" SET "+damage+" WHERE key = 'bad'")
	row := func() string { return scalar[string](t, pool, "SELECT t::text FROM "+table+" AS t WHERE key = 'bad'") }
	before := row()
	corrupt := func(call string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrCorrupt) || errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrMisconfigured) {
			t.Errorf("%s: %v; want ErrCorrupt", call, err)
		}
	}
	of := func(key string, n float64, m store.Mode) store.Op { return op(limit.For(key), n, m) }
	hold := of("bad", 0, store.IfFits)
	hold.Hold = 1
	release := store.Op{Bucket: store.Bucket{Key: "bad"}, Hold: -1, Mode: store.Always}
	penalty := of("bad", 1000, store.IfFits)
	penalty.BlockFor = time.Minute
	block := of("bad", 0, store.Block)
	block.BlockFor = time.Minute
	ops := map[string]store.Op{
		"a try": of("bad", 1, store.IfFits), "a try above the capacity": of("bad", 2000, store.IfFits), "nothing": of("bad", 0, store.IfFits),
		"a fillup": of("bad", 1, store.Clamp), "always": of("bad", 1, store.Always), "a drain": of("bad", -1, store.Always),
		"a question": of("bad", 1, store.Ask), "a hold": hold, "a release": release, "a penalty": penalty, "a block": block,
		"an unblock": of("bad", 0, store.Unblock),
	}
	for call, op := range ops {
		for range 2 { // a lane counts unanswered groups, and then sends other statements together
			_, err := s.Fill(ctx, op)
			corrupt(call, err)
		}
	}
	_, err := s.Read(ctx, limit.For("a"), limit.For("bad"))
	corrupt("a read", err)

	// Those who share a flush with it.
	var calls sync.WaitGroup
	for i := range 60 {
		calls.Go(func() {
			key := []string{"a", "bad", "z", fmt.Sprint("new ", i)}[i%4]
			if st, err := s.Fill(ctx, of(key, 1, store.IfFits)); key == "bad" {
				corrupt("a try among others", err)
			} else if err != nil || !st.Accepted {
				t.Errorf("beside the damaged row: %+v, %v", st, err)
			}
		})
	}
	calls.Wait()
	each := func(name string, st store.Store, mode store.Mode) {
		t.Helper()
		one := func(keys ...string) (txn store.Txn) {
			for _, key := range keys {
				txn = append(txn, of(key, 1, mode))
			}
			return txn
		}
		results, err := st.Apply(ctx, one("a"), one("bad"), one("a", "bad"), one("z", "new"), one("bad", "absent"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		for i, damaged := range []bool{false, true, true, false, true} {
			if damaged {
				corrupt(fmt.Sprint(name, ", transaction ", i), results[i].Err)
			} else if !results[i].Accepted {
				t.Errorf("%s, transaction %d: %+v; want it served", name, i, results[i])
			}
		}
	}
	each("transactions that fill", s, store.IfFits)
	each("transactions that clamp", s, store.Clamp)
	each("transactions that ask", s, store.Ask)
	err = s.Update(ctx, func(inside store.Store) error {
		_, err := inside.Fill(ctx, of("bad", 1, store.IfFits))
		corrupt("a try in a transaction", err)
		_, err = inside.Read(ctx, limit.For("bad"))
		corrupt("a read in a transaction", err)
		each("calls in a transaction", inside, store.IfFits)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	var visited []string
	corrupt("a visit", s.Visit(ctx, "", func(e store.Entry) bool { visited = append(visited, e.Key); return true }))
	if slices.Contains(visited, "bad") || !slices.Contains(visited, "a") || !slices.Contains(visited, "zz") {
		t.Errorf("visited %q; want all but the damaged one", visited)
	}
	if n := scalar[int](t, pool, "SELECT count(*) FROM "+table+" WHERE key = 'absent'"); n != 0 {
		t.Error("a transaction over the damaged row filled another bucket")
	}
	prune(t, s, 1) // zz, which no call has filled
	if after := row(); after != before {
		t.Errorf("the row was %s and is %s", before, after)
	}
	if err := s.Delete(ctx, "bad"); err != nil {
		t.Fatal(err)
	}
	if st := fill(t, s, of("bad", 1, store.IfFits)); st.Level != 1 {
		t.Errorf("after Delete %+v; want an empty bucket filled", st)
	}
}

// TestVisitPastDamage has damage in more rows than a page has.
func TestVisitPastDamage(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	s := over(t, pool, postgres.Options{Schema: schema})
	execute(t, pool, "INSERT INTO "+table(t, schema)+` (level, atime, capacity, leak_rate, key)
		SELECT CASE WHEN i BETWEEN 2 AND 2500 OR i % 3 = 0 THEN -1 ELSE 1 END, now(), 1000, 0, to_char(i, 'FM00000') FROM generate_series(1, 5000) AS i`)
	sound := 0
	err := s.Visit(t.Context(), "", func(e store.Entry) bool {
		if sound++; e.Level != 1 {
			t.Errorf("%+v", e)
		}
		return true
	})
	want := scalar[int](t, pool, "SELECT count(*) FROM "+table(t, schema)+" WHERE level = 1")
	if !errors.Is(err, store.ErrCorrupt) || sound != want {
		t.Errorf("visited %d of %d, %v; want all, and ErrCorrupt", sound, want, err)
	}
}

// TestCheckOfRows has the check count damaged rows, and its remedy name them.
func TestCheckOfRows(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	usual := found(t, pool, schema)
	buckets := table(t, schema)
	for i, damage := range damages {
		key := fmt.Sprintf("bad %02d", i)
		execute(t, pool, "INSERT INTO "+buckets+" (level, atime, capacity, leak_rate, key) VALUES (5, now(), 1000, 1, $1)", key)
		execute(t, pool, "UPDATE "+buckets+" SET "+damage+" WHERE key = $1", key)
	}
	execute(t, pool, "INSERT INTO "+buckets+" (level, atime, capacity, leak_rate, key) VALUES (5, now(), 1000, 1, 'sound')")
	list := findings(t, pool, schema)
	at := slices.IndexFunc(list, func(f store.Finding) bool { return f.Subject == "rows" })
	if at < 0 || list[at].Severity != store.Broken || !strings.HasPrefix(list[at].Problem, fmt.Sprintf("%d of %d rows", len(damages), len(damages)+1)) {
		t.Fatalf("found %+v; want a finding of %d rows", list, len(damages))
	}
	_, sql, _ := strings.Cut(list[at].Remedy, "`")
	sql, _, _ = strings.Cut(sql, "`")
	if n := scalar[int](t, pool, "SELECT count(*) FROM ("+sql+") AS d WHERE key LIKE 'bad %'"); n != len(damages) {
		t.Errorf("the remedy names %d of %d rows", n, len(damages))
	}
	execute(t, pool, "DELETE FROM "+buckets+" WHERE key IN ("+sql+")")
	if got := found(t, pool, schema); got != usual {
		t.Errorf("after the remedy: %s; want %q", got, usual)
	}
	if n := scalar[int](t, pool, "SELECT count(*) FROM "+buckets); n != 1 {
		t.Errorf("%d rows are left; want the sound one", n)
	}
}
