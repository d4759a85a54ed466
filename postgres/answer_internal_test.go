package postgres

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/store"
)

// TestTriesAnswerAsStore fills buckets by each statement for TryFillups. Each caller must get the
// answer that package store gives to one caller after the other.
func TestTriesAnswerAsStore(t *testing.T) {
	pool, schema := pgtest.Pool(t), pgtest.Schema(t)
	if err := migrations.Up(t.Context(), pool, &migrations.Options{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s, err := New(pool, &Options{Schema: schema, Clock: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// By the clock, each bucket has 2 units and 1 that is held.
	limit := store.Limit{Capacity: 10, LeakRate: 1}
	before := store.Record{Level: 3, Held: 1, Time: clock.Add(-time.Second).UnixMicro(), Limit: limit}
	f := &filler{s: s}
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
		for name, statementsFor := range map[string]func([]group) []statement{
			"try_update": func(groups []group) (each []statement) {
				for _, g := range groups {
					each = append(each, f.tryUpdate(g))
				}
				return each
			},
			"try_many": func(groups []group) []statement { return []statement{f.tryMany(groups)} },
			"try_fast": func(groups []group) []statement { return []statement{f.tryFast(groups)} },
		} {
			if _, err := pool.Exec(t.Context(), "DELETE FROM "+schema+".buckets"); err != nil {
				t.Fatal(err)
			}
			var reqs []*fillRequest
			for i, amounts := range c.amounts {
				b := limit.For(fmt.Sprint("k", i))
				if _, err := pool.Exec(t.Context(), "INSERT INTO "+schema+`.buckets
					(key, level, held, atime, capacity, leak_rate) VALUES ($1, $2, $3, $4, $5, $6)`,
					b.Key, before.Level, before.Held, time.UnixMicro(before.Time), b.Capacity, b.LeakRate); err != nil {
					t.Fatal(err)
				}
				for _, n := range amounts {
					reqs = append(reqs, &fillRequest{In: store.Op{Bucket: b, Amount: n}})
				}
			}
			f.sort(reqs)
			var rows []row
			for i, st := range statementsFor(f.tries) {
				groups := f.tries
				if st.form == updated {
					groups = groups[i : i+1]
				}
				some, err := s.decisions(t.Context(), pool, st, groups)
				if err != nil {
					t.Fatalf("%s, %s: %v", c.why, name, err)
				}
				rows = append(rows, some...)
			}
			for i, g := range f.tries {
				answered := rows[i].answered && len(answerTries(s, g, rows[i])) == 0
				if !answered && name == "try_many" {
					t.Errorf("%s, %s: a bucket was left open", c.why, name)
				}
				rec, refused := before, false
				for _, req := range g.reqs {
					want, _, err := rec.Fill(&req.In, clock.UnixMicro(), s.maxSkew)
					if err != nil {
						t.Fatal(err)
					}
					refused = refused || !want.Accepted
					if answered && req.Out != want {
						t.Errorf("%s, %s: %v gets %+v; package store says %+v", c.why, name, req.In.Amount, req.Out, want)
					}
				}
				if !answered && !refused {
					t.Errorf("%s, %s: a bucket with room was left open", c.why, name)
				}
			}
		}
	}
}

// TestAnswerWithoutRow sends statements whose rows are not those of the groups. Only the forms that
// return no row for a refusal may leave a group out.
func TestAnswerWithoutRow(t *testing.T) {
	s, err := New(pgtest.Pool(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	render := renderer(defaultNames(t))
	const stored = "{{bits(1)}}, {{instant(now())}}, {{bits(0)}}, {{bits(1)}}, {{bits(0)}}, {{instant(now())}}"
	groups := []group{{reqs: []*fillRequest{{In: store.Op{Bucket: store.Limit{Capacity: 1}.For("k"), Amount: 1}}}}}
	for _, c := range []struct {
		why, sql string
		form     form
		fails    bool
	}{
		{"one row is missing", "SELECT true, " + stored + ", {{instant(now())}} WHERE false", single, true},
		{"a numbered row is missing", "SELECT 1::int8, true, {{bits(0)}}, {{instant(now())}}, " + stored + " WHERE false", numbered, true},
		{"a row has the number 0", "SELECT 0::int8, true, {{bits(0)}}, {{instant(now())}}, " + stored, numbered, true},
		{"a row has the number of no group", "SELECT 2::int8, true, {{bits(0)}}, {{instant(now())}}, " + stored, numbered, true},
		{"a row has the key of no group", "SELECT 'other'::text, {{bits(1)}}, {{bits(NULL)}}, {{bits(0)}}, {{instant(now())}}", keyed, true},
		{"a keyed row is missing", "SELECT ''::text, {{bits(1)}}, {{bits(NULL)}}, {{bits(0)}}, {{instant(now())}} WHERE false", keyed, false},
		{"the updated row is missing", "SELECT {{bits(1)}}, {{instant(now())}}, {{bits(NULL)}}, {{bits(0)}}, {{instant(now())}} WHERE false", updated, false},
	} {
		rows, err := s.decisions(t.Context(), pgtest.Pool(t), statement{sql: render("test", c.sql), form: c.form}, groups)
		if errors.Is(err, store.ErrUnknownOutcome) != c.fails || err != nil && !c.fails {
			t.Errorf("%s: %+v, %v; want an unknown outcome: %v", c.why, rows, err, c.fails)
		}
	}
}
