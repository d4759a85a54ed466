package spendtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// errOwn is the error of a job.
var errOwn = errors.New("the job's own")

// revised is a job that appends the rules r after the newest ones of the budget, and returns them
// in into.
func revised(r ledger.Rules, into *ledger.Rules) *ledger.Job {
	return &ledger.Job{Rules: []ledger.Known{{Budget: r.Budget}}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		newest, err := snap.Rules(r.Budget)
		if err != nil {
			return nil, err
		}
		next := r
		next.Seq, next.At, next.Digest = newest.Seq+1, snap.Now(), chained(newest.Digest, r.Text)
		*into = next
		return &ledger.Changes{Rules: []ledger.Rules{next}}, nil
	}}
}

// chained returns the digest of rules after those with another one.
func chained(before, text []byte) []byte {
	sum := sha256.Sum256(slices.Concat(before, text))
	return sum[:]
}

// revise appends rules, and returns them.
func (s *fixture) revise(r ledger.Rules) (appended ledger.Rules) {
	s.Helper()
	if err := s.l.Decide(ctx, revised(r, &appended)); err != nil {
		s.Fatal(err)
	}
	return appended
}

// asked is a job that reads the rules of budgets, with and without the digests that it knows.
func asked(into *[]ledger.Rules, known ...ledger.Known) *ledger.Job {
	return &ledger.Job{Rules: known, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		*into = nil
		for _, k := range known {
			r, err := snap.Rules(k.Budget)
			if err != nil {
				return nil, err
			}
			*into = append(*into, r)
		}
		return nil, nil
	}}
}

// reads wants that jobs read rules as the newest ones of their budget, or that the budget has none.
func (s *fixture) reads(want ledger.Rules, budget string) {
	s.Helper()
	for _, digest := range [][]byte{nil, {}, []byte("another digest"), want.Digest} {
		for name, run := range map[string]func(*ledger.Job) error{
			"Decide": func(j *ledger.Job) error { return s.l.Decide(ctx, j) },
			"View":   func(j *ledger.Job) error { return s.l.View(ctx, j) },
		} {
			var got []ledger.Rules
			err := run(asked(&got, ledger.Known{Budget: budget, Digest: digest}))
			if err == nil && len(want.Digest) > 0 && string(digest) == string(want.Digest) && len(got[0].Text) == 0 {
				got[0].Text = want.Text // the job has it
			}
			if d := differ.Fields(got, []ledger.Rules{want}); err != nil || d != "" {
				s.Fatalf("the newest rules of %q, by %s with the digest %x: %v\n%s", budget, name, digest, err, d)
			}
		}
	}
}

// lists wants all revisions of a budget, by pages of every length.
func (s *fixture) lists(budget string, want ...ledger.Rules) {
	s.Helper()
	want = slices.Clone(want)
	slices.Reverse(want)
	for limit := 1; limit <= len(want)+1; limit++ {
		var all []ledger.Rules
		for before, more := int64(0), true; more && len(all) <= len(want); {
			page, err := s.l.Revisions(ctx, budget, before, limit)
			if err != nil || len(page) > limit {
				s.Fatalf("%d revisions of %q, %v; want at most %d", len(page), budget, err, limit)
			}
			all = append(all, page...)
			if more = len(page) == limit; more {
				before = page[limit-1].Seq
			}
		}
		if d := differ.Fields(all, want); d != "" {
			s.Fatalf("revisions of %q by pages of %d:\n%s", budget, limit, d)
		}
	}
}

// revisionCases are about the rules of budgets that a ledger keeps.
func revisionCases() []testCase {
	window := []spend.Rule{month(100)}
	return []testCase{
		{
			name: "rules come in revisions", rules: window,
			why: "the newest rules of a budget are in force, all are kept as they were set, and no budget sees those of another",
			steps: []step{check(func(s *fixture) {
				name := s.c.name + ": "
				budgets := []string{name + "x", name + "xy", name + "X", name, name + "\u00e9"}
				for _, budget := range budgets {
					s.reads(ledger.Rules{}, budget)
					s.lists(budget)
				}
				all := make(map[string][]ledger.Rules)
				for i := range 11 {
					after(time.Second).do(s)
					budget := budgets[i%3]
					r := ledger.Rules{
						Budget: budget, Revision: int64(100 - i), By: []string{"", "Zo\u00eb <zoe@example.com>"}[i/3%2],
						Reason: []string{"fraud, \u4e0d\u6b63", ""}[i/3%2], Held: i%4 == 0, Text: []byte(fmt.Sprintf(`{"rules":"%d \u20ac"}`, i)),
					}
					all[budget] = append(all[budget], s.revise(r))
					s.reads(all[budget][i/3], budget)
				}
				for _, budget := range budgets {
					s.lists(budget, all[budget]...)
				}
				if page, err := s.l.Revisions(ctx, budgets[0], 1, 5); err != nil || len(page) > 0 {
					s.Errorf("revisions below the first: %+v, %v", page, err)
				}
				if s.h.Reopen != nil {
					for range 2 {
						s.l = s.h.Reopen(s, s.l, s.clock.now)
						for _, budget := range budgets {
							s.lists(budget, all[budget]...)
						}
						s.reads(all[budgets[1]][3], budgets[1])
					}
				}
			})},
		},
		{
			name: "long rules", rules: window,
			why: "a budget may have thousands of rules, and a job that does not know them gets all of their text",
			steps: []step{check(func(s *fixture) {
				text := []byte(strings.Repeat("0123456789ab\u20ac\"\\\n", 1<<16))
				budget := s.c.name + ": long"
				r := s.revise(ledger.Rules{Budget: budget, Revision: 1, Text: text})
				s.reads(r, budget)
				s.lists(budget, r)
			})},
		},
		{
			name: "several set rules at once", rules: window,
			why: "of two that go by the same rules one comes second, and sees the other's",
			steps: []step{check(func(s *fixture) {
				budget := s.c.name + ": race"
				s.race(func(racer, i int) error {
					var r ledger.Rules
					return s.l.Decide(ctx, revised(ledger.Rules{Budget: budget, Text: []byte(fmt.Sprint(racer, i))}, &r))
				})
				n := racers * perRound * rounds
				list, err := s.l.Revisions(ctx, budget, 0, n+1)
				if err != nil || len(list) != n {
					s.Fatalf("%d revisions, %v; want %d", len(list), err, n)
				}
				slices.Reverse(list)
				var digest []byte
				texts := make(map[string]bool)
				for i, r := range list {
					texts[string(r.Text)] = true
					if digest = chained(digest, r.Text); r.Seq != int64(i+1) || string(r.Digest) != string(digest) {
						s.Fatalf("revision %d is %+v, and has not seen the one before", i+1, r)
					}
				}
				if len(texts) != n {
					s.Errorf("%d different revisions; want %d", len(texts), n)
				}
			})},
		},
		{
			name: "rules of jobs that are sent together", rules: window,
			why: "a job reads the rules that a job before it has set, with their text if it does not know them",
			steps: []step{check(func(s *fixture) {
				budget, other := s.c.name+": together", s.c.name+": other"
				old := s.revise(ledger.Rules{Budget: budget, Text: []byte("old")})
				alone := s.revise(ledger.Rules{Budget: other, Text: []byte("other")})
				var set ledger.Rules
				var before, know, ask []ledger.Rules
				failing := revised(ledger.Rules{Budget: budget, Text: []byte("failed")}, new(ledger.Rules))
				run := failing.Run
				failing.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
					c, err := run(snap)
					return c, errors.Join(err, errOwn)
				}
				errs := s.l.DecideAll(ctx, []*ledger.Job{
					asked(&before, ledger.Known{Budget: budget, Digest: old.Digest}, ledger.Known{Budget: other, Digest: alone.Digest}),
					failing, revised(ledger.Rules{Budget: budget, Text: []byte("new")}, &set),
					asked(&know, ledger.Known{Budget: budget, Digest: old.Digest}),
					asked(&ask, ledger.Known{Budget: other}, ledger.Known{Budget: budget, Digest: []byte("unknown")}),
				})
				if !errors.Is(errs[1], errOwn) || errors.Join(errs[0], errs[2], errs[3], errs[4]) != nil {
					s.Fatalf("%q; want an error of the second job alone", errs)
				}
				for i, got := range [][]ledger.Rules{before, know, ask} {
					want := [][]ledger.Rules{{old, alone}, {set}, {alone, set}}[i]
					for j := range got {
						if i == 0 && len(got[j].Text) == 0 {
							got[j].Text = want[j].Text
						}
					}
					if d := differ.Fields(got, want); d != "" {
						s.Errorf("question %d:\n%s", i+1, d)
					}
				}
				s.lists(budget, old, set)
			})},
		},
		{
			name: "rules that are not stored", rules: window,
			why: "a job that fails, or whose transaction is lost, sets no rules, and nobody replaces rules that are there",
			steps: []step{check(func(s *fixture) {
				budget := s.c.name + ": kept"
				first := s.revise(ledger.Rules{Budget: budget, Text: []byte("first")})
				for _, seq := range []int64{-1, 0, 1, 3} {
					job := revised(ledger.Rules{Budget: budget, Text: []byte("wrong")}, new(ledger.Rules))
					run := job.Run
					job.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
						c, err := run(snap)
						if err == nil {
							c.Rules[0].Seq = seq
						}
						return c, err
					}
					if err := s.l.Decide(ctx, job); err == nil {
						s.Errorf("the ledger stores rules with the number %d behind those with 1", seq)
					}
				}
				s.lists(budget, first)
				if s.h.Crash != nil {
					s.h.Crash(s, s.l, func(l ledger.Ledger) {
						var lost ledger.Rules
						if err := l.Decide(ctx, revised(ledger.Rules{Budget: budget, Text: []byte("lost")}, &lost)); err != nil || lost.Seq != 2 {
							s.Errorf("in a transaction: %+v, %v", lost, err)
						}
					})
				}
				s.reads(first, budget)
				second := s.revise(ledger.Rules{Budget: budget, Text: []byte("second")})
				s.reads(second, budget)
				s.lists(budget, first, second)
			})},
		},
	}
}
