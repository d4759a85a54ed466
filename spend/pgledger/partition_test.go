package pgledger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/spendtest"
)

// partitioned makes tables that are partitioned by hash, but for the accounts.
func partitioned(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	schema := migrated(t)
	for table, key := range map[string]string{"entries": "account", "requests": "id", "spends": "id", "holds": "account"} {
		sql := "ALTER TABLE @ RENAME TO plain_" + table + "; CREATE TABLE @ (LIKE " + schema + ".plain_" + table +
			" INCLUDING ALL) PARTITION BY HASH (" + key + "); DROP TABLE " + schema + ".plain_" + table + " CASCADE"
		for i := range 2 {
			sql += fmt.Sprintf("; CREATE TABLE @_%d PARTITION OF @ FOR VALUES WITH (MODULUS 2, REMAINDER %[1]d)", i)
		}
		run(t, pool, strings.ReplaceAll(sql, "@", schema+".buckets_"+table))
	}
	return schema
}

// ranged partitions the entries of a schema by time, as docs/ledger-upkeep.md tells. There are
// partitions until some times, and if these are several, the default one.
func ranged(t *testing.T, pool *pgxpool.Pool, schema string, ends ...string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/ledger-upkeep.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```sql\n(ALTER TABLE brim.buckets_entries ADD .*?)```").FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/ledger-upkeep.md has no statements that partition the entries")
	}
	sql := strings.NewReplacer("brim.", schema+".", "2027-01-01", ends[0], "TO app;", "TO CURRENT_USER;").Replace(string(found[1]))
	for i := range ends[1:] {
		sql += fmt.Sprintf("CREATE TABLE %[1]s.e%[2]d PARTITION OF %[1]s.buckets_entries FOR VALUES FROM ('%[3]s Z') TO ('%[4]s Z');",
			schema, i, ends[i], ends[i+1])
	}
	if len(ends) > 1 {
		sql += fmt.Sprintf("CREATE TABLE %[1]s.rest PARTITION OF %[1]s.buckets_entries DEFAULT", schema)
	}
	run(t, pool, sql)
	script, err := migrations.SQL(&migrations.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	run(t, pool, script)
}

func run(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func partition(t *testing.T, pool *pgxpool.Pool, schema string) migrations.Partitioned {
	t.Helper()
	done, err := migrations.Partition(t.Context(), pool, migrations.Month, 2, &migrations.Options{Schema: schema})
	if err != nil {
		t.Error(err)
	}
	return done
}

// TestPartitioned runs random calls over partitions by hash, and by time. Partition deletes and
// drops beside the latter, while the clock steps back for each new sequence. With BRIM_TORTURE=1,
// the cases of the suite come first.
func TestPartitioned(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	for name, open := range map[string]func() string{
		"hash": func() string { return partitioned(t, pool) },
		"range": func() string {
			schema := migrated(t)
			ranged(t, pool, schema, "2026-03-01 00:01", "2026-03-01 00:03", "2026-03-01 00:10")
			return schema
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema := open()
			h := harnessOver(pool, schema)
			if name == "range" {
				if os.Getenv("BRIM_TORTURE") == "1" {
					t.Run("conformance", func(t *testing.T) { spendtest.Run(t, h) })
				}
				clock := time.Date(2026, 3, 1, 0, 2, 0, 0, time.UTC) // in a partition that stays for its sake
				l := h.New(t, func() time.Time { return clock })
				charge(t, budgetOf(t, l, "ever", spend.Lifetime("rule", eur(1))), "a", "1")
				ctx, cancel := context.WithCancel(t.Context())
				var beside sync.WaitGroup
				defer beside.Wait()
				defer cancel()
				beside.Go(func() {
					for ctx.Err() == nil {
						partition(t, pool, schema)
					}
				})
			}
			spendtest.Random(t, h, seed.Attempts(25, 500))
		})
	}
}

// TestPartition drops the partitions of which no account needs an entry, and keeps one for the sake
// of an account that nobody has pruned.
func TestPartition(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	o := &migrations.Options{Schema: schema}
	if _, err := migrations.Partition(t.Context(), pool, migrations.Day, 1, o); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of a plain table: %v; want ErrUnsupported", err)
	}
	clock := time.Date(2020, 1, 15, 0, 0, 0, 0, time.UTC)
	l := over(t, pool, &postgres.Options{Schema: schema, Clock: func() time.Time { return clock }})
	old := budgetOf(t, l, "old", spend.Rolling("rule", eur(100), 30*24*time.Hour))
	other := budgetOf(t, l, "other", spend.Lifetime("rule", eur(100)))
	charge := func(b *spend.Budgets, account string) {
		t.Helper()
		charge(t, b, account, fmt.Sprint(account, clock))
	}
	charge(old, "a") // in the plain table, before it is partitioned
	ranged(t, pool, schema, "2020-02-01", "2020-03-01", "2020-04-01")
	for month := range 4 { // the last one has no partition
		clock = time.Date(2020, time.Month(1+month), 20, 0, 0, 0, 0, time.UTC)
		charge(old, "a")
		charge(old, "b")
		if month == 1 {
			charge(other, "c")
		}
	}
	if done := partition(t, pool, schema); done.Strays != 2 || len(done.Created) != 3 || len(done.Dropped) > 0 {
		t.Errorf("before Prune: %+v; want the two strays of April, and this month with the next two", done)
	}
	clock = time.Now().UTC()
	charge(old, "b")
	if _, err := old.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	counted := func() int { return query[int](t, pool, "SELECT count(*) FROM "+schema+".buckets_entries") }
	if rows := counted(); rows != 11 {
		t.Errorf("%d rows after Prune; want all 11", rows)
	}
	check := func() {
		t.Helper()
		for b, want := range map[*spend.Budgets]string{old: "[b]", other: "[c]"} {
			var left []string
			for e, err := range b.Export(t.Context(), spend.Entry{}) {
				if err != nil {
					t.Fatal(err)
				}
				left = append(left, e.Name)
			}
			if fmt.Sprint(left) != want {
				t.Errorf("the entries are of the accounts %v; want %s", left, want)
			}
		}
		for account, b := range map[string]*spend.Budgets{"a": old, "b": old, "c": other} {
			if err := b.Verify(t.Context(), account); err != nil {
				t.Error(err)
			}
		}
		tx := begin(t, pool) // so that the old rule stays
		fresh, err := spend.New(t.Context(), l.With(tx), spend.Budget{
			Name: "old", Currency: "EUR", Revision: 1, Rules: []spend.Rule{spend.Rolling("fresh", eur(100), 36500*24*time.Hour)},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if u, err := fresh.Remaining(t.Context(), "b"); err != nil || u[0].Used != eur(1) {
			t.Errorf("a new rule: %+v, %v; want what Prune has left", u, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}
	check()
	want := migrations.Partitioned{Dropped: []string{"buckets_entries_plain", "e1"}}
	if d := differ.Fields(partition(t, pool, schema), want); d != "" || counted() != 4 {
		t.Errorf("%d rows; want 4\n%s", counted(), d)
	}
	check()
	if d := differ.Fields(partition(t, pool, schema), migrations.Partitioned{}); d != "" {
		t.Errorf("once more:\n%s", d)
	}
	clock = time.Date(2020, 1, 16, 0, 0, 0, 0, time.UTC) // it is wrong: the partition is gone
	charge(old, "late")
	if done := partition(t, pool, schema); done.Strays != 1 {
		t.Errorf("after a step back of the clock: %+v; want a stray", done)
	}
}

// TestPartitionForever has a partition without end, and settings that change the text of bounds and
// of patterns. Partition creates none after it, and drops the others.
func TestPartitionForever(t *testing.T) {
	pool := pgtest.PoolAt(t, pgtest.With(t,
		"TimeZone=Asia/Kolkata&DateStyle=German&standard_conforming_strings=off&escape_string_warning=off"))
	for _, end := range []string{"MAXVALUE", "'infinity'"} {
		schema := migrated(t)
		ranged(t, pgtest.Pool(t), schema, "2020-02-01", "2020-03-01")
		run(t, pool, fmt.Sprintf("CREATE TABLE %[1]s.forever PARTITION OF %[1]s.buckets_entries FOR VALUES FROM ('2020-03-01 Z') TO (%[2]s)", schema, end))
		want := migrations.Partitioned{Dropped: []string{"buckets_entries_plain", "e0"}}
		if d := differ.Fields(partition(t, pool, schema), want); d != "" {
			t.Errorf("until %s:\n%s", end, d)
		}
	}
}

// TestPartitionStray has an entry come to the default partition while Partition waits to attach the
// partition of its time. Another one, of a clock that is far ahead, is there before. Only these two
// periods get no partition.
func TestPartitionStray(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	ranged(t, pool, schema, "2020-02-01", "2020-03-01")
	stray := time.Date(2020, 6, 1, 0, 0, 0, 0, time.UTC)
	l := over(t, pool, &postgres.Options{Schema: schema, Clock: func() time.Time { return stray }})
	cards := budgetOf(t, l, "cards", spend.Lifetime("rule", eur(2)))
	charge(t, cards, "a", "1")
	stray = time.Now().AddDate(2, 0, 0)
	charge(t, cards, "a", "2")
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "UPDATE "+schema+".rest SET at = now() WHERE at < now()"); err != nil {
		t.Fatal(err)
	}
	made := make(chan migrations.Partitioned, 1)
	go func() { made <- partition(t, pool, schema) }()
	for query[int](t, pool, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = '"+schema+".rest'::regclass") == 0 {
		if len(made) > 0 {
			break
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done := <-made; len(done.Created) != 2 || done.Strays != 2 {
		t.Errorf("%+v; want the two months after this one", done)
	}
}

// TestPruneBesideOthersTable prunes while another program changes the definition of its table,
// which is partitioned and has the name of this ledger's entries, in a schema of its own. Prune
// must not ask the server about that table: it would wait for the other program, and fail if that
// drops the table.
func TestPruneBesideOthersTable(t *testing.T) {
	pool := pgtest.Pool(t)
	schema, other := migrated(t), migrated(t)
	ranged(t, pool, other, "2020-02-01")
	now := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	b := budgetOf(t, over(t, pool, &postgres.Options{Schema: schema, Clock: func() time.Time { return now }}), "cards", spend.Rolling("day", eur(9), 24*time.Hour))
	charge(t, b, "a", "1")
	now = now.AddDate(2, 0, 0)
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+other+".buckets_entries"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := b.Prune(ctx); err != nil {
		t.Errorf("Prune beside another schema's locked table: %v", err)
	}
	if left := query[int](t, pool, "SELECT count(*) FROM "+schema+".buckets_entries"); left != 0 {
		t.Errorf("%d entries are left; want none", left)
	}
}

// budgetOf returns a budget with rules.
func budgetOf(t *testing.T, l ledger.Ledger, name string, rules ...spend.Rule) *spend.Budgets {
	t.Helper()
	b, err := spend.New(t.Context(), l, spend.Budget{Name: name, Currency: "EUR", Rules: rules}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// charge charges a cent.
func charge(t *testing.T, b *spend.Budgets, account, id string) {
	t.Helper()
	if d, err := b.Charge(t.Context(), spend.Request{ID: id, Account: account, Amount: eur(1)}); err != nil || !d.Approved {
		t.Fatal(d, err)
	}
}

// TestPartitionBeside makes days ahead in several processes at the same time, of which each finds
// the others' work, and beside a transaction that has read the entries.
func TestPartitionBeside(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	ranged(t, pool, schema, "2020-02-01")
	var mu sync.Mutex
	var created []string
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			done, err := migrations.Partition(t.Context(), pool, migrations.Week, 30, &migrations.Options{Schema: schema})
			mu.Lock()
			defer mu.Unlock()
			if created = append(created, done.Created...); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	slices.Sort(created)
	if n := len(created); n < 15 || len(slices.Compact(slices.Clone(created))) != n {
		t.Errorf("created %v; want weeks after two months ahead, each once", created)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+schema+".buckets_entries"); err != nil {
		t.Fatal(err)
	}
	_, err = migrations.Partition(t.Context(), pool, migrations.Week, 40, &migrations.Options{Schema: schema, LockTimeout: time.Millisecond})
	if !errors.Is(err, migrations.ErrLocked) {
		t.Errorf("beside a transaction: %v; want ErrLocked", err)
	}
	l := over(t, pool, &postgres.Options{Schema: schema})
	charge(t, budgetOf(t, l, "cards", spend.Lifetime("rule", eur(1))), "a", "1")
}
