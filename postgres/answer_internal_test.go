package postgres

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/store"
)

// ownTable returns a store over a table of its own on the shared server.
func ownTable(t *testing.T, o Options) (s *Store, pool *pgxpool.Pool, schema string) {
	t.Helper()
	pool, schema = pgtest.Pool(t), pgtest.Schema(t)
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	o.Schema = schema
	s, err := New(pool, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, pool, schema
}

// TestTriesAnswerAsStore fills buckets by each statement for TryFillups. Each caller must get the
// answer that package store gives to one caller after the other, and the row must be the one that
// store leaves: all columns, also those of the limit, which the calls change.
func TestTriesAnswerAsStore(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s, pool, schema := ownTable(t, Options{Clock: func() time.Time { return clock }})
	limit := store.Limit{Capacity: 10, LeakRate: 1}
	for _, old := range []store.Limit{{Capacity: 20, LeakRate: 1}, {Capacity: 10, LeakRate: 2}, {}} {
		before := store.NewRecord(clock.UnixMicro()) // no row
		if old != (store.Limit{}) {
			// By the clock, each bucket has 2 units and 1 that is held.
			before = unlike(store.Record{Level: 2 + old.LeakRate, Held: 1, Time: clock.Add(-time.Second).UnixMicro(), Limit: old})
		}
		for _, ceiling := range []float64{0, 9.5, 12} {
			op := store.Op{Bucket: store.Bucket{Limit: limit}, Ceiling: ceiling}
			t.Run(fmt.Sprint(old, ceiling), func(t *testing.T) { triesAnswerAsStore(t, s, pool, schema, clock, op, before) })
		}
	}
}

func triesAnswerAsStore(t *testing.T, s *Store, pool *pgxpool.Pool, schema string, clock time.Time, op store.Op, before store.Record) {
	f, limit := &filler{s: s}, op.Limit
	exists := before.Limit != (store.Limit{})
	for _, c := range []struct {
		why     string
		amounts [][]float64 // that the callers ask of each bucket, in ascending order
	}{
		{"one caller for each bucket", [][]float64{{1}, {2}, {6}}},
		{"several callers for one bucket of two", [][]float64{{1}, {1, 2}}},
		{"several callers for the other one", [][]float64{{1, 2}, {1}}},
		{"two callers for each bucket", [][]float64{{1, 1}, {1, 1}}},
		{"several callers fill a bucket to its rim", [][]float64{{1, 2, 4}, {3, 4}}},
		{"one bucket refuses", [][]float64{{1}, {8}, {1}}},
		{"all buckets refuse", [][]float64{{8}, {9}}},
		{"a bucket refuses the last callers", [][]float64{{1}, {2, 3, 4, 5}}},
	} {
		for name, reach := range map[string]reach{"the UPDATE": alone, "with the SELECT": asking, "all statements": whole} {
			if _, err := pool.Exec(t.Context(), "DELETE FROM "+schema+".buckets"); err != nil {
				t.Fatal(err)
			}
			var reqs []*fillRequest
			for i, amounts := range c.amounts {
				b := limit.For(fmt.Sprint("k", i))
				if exists {
					put(t, pool, schema, []string{b.Key}, []store.Record{before})
				}
				for _, n := range amounts {
					op.Bucket, op.Amount = b, n
					reqs = append(reqs, &fillRequest{In: op})
				}
			}
			rows, err := s.send(t.Context(), pool, f.sort(reqs), reach, nil)
			if err != nil {
				t.Fatalf("%s, %s: %v", c.why, name, err)
			}
			left, err := s.records(t.Context(), pool, []string{"k0", "k1", "k2"})
			if err != nil {
				t.Fatal(err)
			}
			for i, g := range f.tries {
				if !exists && reach < whole {
					if rows[i].answered {
						t.Errorf("%s, %s: a bucket without a row was answered before the INSERT", c.why, name)
					}
					continue
				}
				if reach > alone && !rows[i].answered {
					t.Errorf("%s, %s: a bucket has no row of an answer", c.why, name)
				}
				answered := rows[i].answered && len(answerTries(s, g, rows[i])) == 0
				rec, accepted, refused := before, false, false
				for _, req := range g.reqs {
					want, _, err := rec.Fill(&req.In, clock.UnixMicro(), s.maxSkew)
					if err != nil {
						t.Fatal(err)
					}
					accepted, refused = accepted || want.Accepted, refused || !want.Accepted
					if d := differ.Fields(req.Out, want); answered && d != "" {
						t.Errorf("%s, %s: the answer to %v differs from that of package store:\n%s", c.why, name, req.In.Amount, d)
					}
				}
				want := before
				if rows[i].written {
					want = rec
				}
				row, err := left.of(g.op().Key)
				if d := differ.Fields(row, want); err != nil || d != "" {
					t.Errorf("%s, %s: the row of %s, error %v:\n%s", c.why, name, g.op().Key, err, d)
				}
				// The refusal of a call with another rate writes, which needs a lock.
				if !answered && (!refused || reach > alone && !accepted && before.LeakRate == limit.LeakRate) {
					t.Errorf("%s, %s: a bucket was left open that has room for all or for none", c.why, name)
				}
			}
		}
	}
}

// TestAnswerWithoutRow reads answers whose rows are not those of the groups.
func TestAnswerWithoutRow(t *testing.T) {
	pool := pgtest.Pool(t)
	render := func(sql string) string { return defaultNames(t).Statement("test", sql, pgrun.Fragments()) }
	groups := make([]group, 2)
	for i, key := range []string{"a", "b"} {
		groups[i].reqs = []*fillRequest{{In: store.Op{Bucket: store.Bucket{Key: key}}}}
	}
	for _, c := range []struct {
		why, keys string
		fails     bool
	}{
		{"a refused bucket has no row", "{b}", false},
		{"a row has the key of no group", "{other}", true},
		{"a row comes twice", "{a,b,b}", true},
	} {
		rows, err := pool.Query(t.Context(), render("SELECT k, {{bits(1)}}, {{bits(NULL)}}, {{bits(0)}}, {{instant(now())}} FROM unnest($1::text[]) AS k"), c.keys)
		if err != nil {
			t.Fatal(err)
		}
		each := into(groups, func(int, row) {})
		for err = error(nil); err == nil && rows.Next(); {
			err = each(rows)
		}
		rows.Close()
		if errors.Is(err, store.ErrUnknownOutcome) != c.fails || err != nil && !c.fails {
			t.Errorf("%s: %v; want an unknown outcome: %v", c.why, err, c.fails)
		}
	}
}
