package clock_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/clock/clocktest"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// opened registers the end of a store or a ledger.
func opened[S interface{ Close() error }](t *testing.T, s S, err error) S {
	t.Helper()
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var stores = map[string]func(t *testing.T, log *slog.Logger) store.Store{
	"memory": func(t *testing.T, log *slog.Logger) store.Store {
		return opened(t, memory.New(&memory.Options{Logger: log}), nil)
	},
	"bolt": func(t *testing.T, log *slog.Logger) store.Store {
		s, err := bolt.Open(filepath.Join(t.TempDir(), "limits.db"), &bolt.Options{Logger: log})
		return opened(t, s, err)
	},
	"bolt without a journal": func(t *testing.T, log *slog.Logger) store.Store {
		s, err := bolt.Open(filepath.Join(t.TempDir(), "limits.db"), &bolt.Options{Logger: log, NoJournal: true})
		return opened(t, s, err)
	},
}

// TestStores: a bucket of 36 units leaks one in a hundred seconds. The clocks of the machine move,
// and then the bucket has a level at a time.
func TestStores(t *testing.T) {
	limit := store.Limit{Capacity: 36, LeakRate: 0.01}
	const hundred = 100 * time.Second
	for _, c := range []struct {
		name, why string
		set, pass time.Duration
		level     float64
		ahead     time.Duration // the time of the fill, of the wall clock
		log       []string      // words of its lines
	}{
		{"time passes", "both clocks run alike", 0, 5 * hundred, 31, 0, nil},
		{
			"suspended", "suspended time leaks, too", 20 * hundred, 5 * hundred, 11, 0,
			[]string{"jumped by more than MaxSkew"},
		},
		{
			"set back by 200 s", "the store's time runs at half speed", -2 * hundred, 2 * hundred, 35, hundred, nil,
		},
		{"set back by 200 s and caught up", "and no longer than necessary", -2 * hundred, 5 * hundred, 33, 0, nil},
		{
			"set back by an hour", "the time of the bucket is not believed, and its level is kept", -36 * hundred, hundred, 36, 0,
			[]string{"direction=back", "clock"},
		},
		{
			"set back by 400 s", "the store's time jumps back, and the bucket's time, 300 s ahead of it, is believed",
			-4 * hundred, hundred, 36, 3 * hundred,
			[]string{"direction=back"},
		},
	} {
		for name, open := range stores {
			for _, year := range []int{1960, 1969, 2026} {
				t.Run(fmt.Sprint(c.name, " over ", name, " in ", year), func(t *testing.T) {
					m := clocktest.New(t, time.Date(year, 12, 31, 23, 50, 0, 0, time.UTC))
					var log bytes.Buffer
					s := open(t, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
					fill := func(n float64) store.State {
						t.Helper()
						st, err := s.Fill(t.Context(), store.Op{Bucket: limit.For("k"), Amount: n, Mode: store.Always})
						must(t, err)
						return st
					}
					if st := fill(36); !st.BlockedUntil.IsZero() || !st.At.Equal(m.Wall()) {
						t.Errorf("the first fill is %+v; want one at %v without a block", st, m.Wall())
					}
					// A call notices a step of the wall clock after a millisecond.
					m.Set(c.set)
					m.Pass(time.Millisecond)
					if _, err := s.Read(t.Context(), limit.For("k")); err != nil {
						t.Fatal(err)
					}
					m.Pass(c.pass - time.Millisecond)
					st := fill(1)
					if got := st.Level - 1; got < c.level-1e-4 || got > c.level+1e-4 {
						t.Errorf("%v units are left, want %v: %s", got, c.level, c.why)
					}
					if got := st.At.Sub(m.Wall()); got < c.ahead-time.Millisecond || got > c.ahead+time.Millisecond {
						t.Errorf("the fill is at %v after the wall clock, want %v: %s", got, c.ahead, c.why)
					}
					lines := slices.Collect(strings.Lines(log.String()))
					if !slices.EqualFunc(lines, c.log, strings.Contains) {
						t.Errorf("the log has %q, want %q in its lines: %s", lines, c.log, c.why)
					}
				})
			}
		}
	}
}

// TestRestart opens a file after the wall clock was set back between the runs.
func TestRestart(t *testing.T) {
	for _, c := range []struct {
		set   time.Duration
		ahead time.Duration // the first reading, of the wall clock
		log   bool
		why   string
	}{
		{time.Hour, 0, false, "the usual restart"},
		{-4 * time.Minute, 4 * time.Minute, false, "no time is used twice"},
		{-time.Hour, 0, true, "a clock that had jumped must not freeze all buckets"},
	} {
		for _, year := range []int{1960, 1969, 2026} {
			for _, noJournal := range []bool{false, true} {
				t.Run(fmt.Sprintf("by %v in %d, without a journal: %v", c.set, year, noJournal), func(t *testing.T) {
					m := clocktest.New(t, time.Date(year, 12, 31, 23, 59, 50, 0, time.UTC))
					var log bytes.Buffer
					o := &bolt.Options{NoJournal: noJournal, Logger: slog.New(slog.NewTextHandler(&log, nil))}
					path := filepath.Join(t.TempDir(), "limits.db")
					at := func(ahead time.Duration) {
						t.Helper()
						s, err := bolt.Open(path, o)
						must(t, err)
						st, err := s.Fill(t.Context(), store.Op{Bucket: store.Limit{Capacity: 9}.For("k"), Amount: 1, Mode: store.Always})
						must(t, err)
						if got := st.At.Sub(m.Wall()); got != ahead {
							t.Errorf("the fill is at %v after the wall clock, want %v: %s", got, ahead, c.why)
						}
						must(t, s.Close())
					}
					at(0)
					m.Set(c.set)
					log.Reset()
					at(c.ahead)
					if got := strings.Contains(log.String(), "MaxSkew"); got != c.log {
						t.Errorf("the log is %q: %s", log.String(), c.why)
					}
				})
			}
		}
	}
}

var ledgers = map[string]func(t *testing.T, log *slog.Logger) ledger.Ledger{
	"memledger": func(t *testing.T, _ *slog.Logger) ledger.Ledger { return opened(t, memledger.New(nil), nil) },
	"boltledger": func(t *testing.T, log *slog.Logger) ledger.Ledger {
		s, err := bolt.Open(filepath.Join(t.TempDir(), "limits.db"), &bolt.Options{Logger: log})
		must(t, err)
		l, err := boltledger.New(s, nil)
		must(t, err)
		t.Cleanup(func() {
			_ = l.Close()
			_ = s.Close()
		})
		return l
	},
}

// TestLedgers charges an account up to its limit. The clocks of the machine move, and then the
// account has room again, or not.
func TestLedgers(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	day := spend.Calendar("day", spend.Money{Minor: 100, Currency: "EUR"}, spend.Day, time.UTC)
	rolling := spend.Rolling("rolling", spend.Money{Minor: 100, Currency: "EUR"}, 30*24*time.Hour)
	for _, c := range []struct {
		name, why string
		rule      spend.Rule
		set, pass time.Duration
		room      bool
	}{
		{"an afternoon", "the day is not over", day, 0, 11 * time.Hour, false},
		{"a suspended night", "a daily budget ends at midnight, not a day later", day, 20 * time.Hour, time.Minute, true},
		{"a suspended afternoon", "the day is not over", day, 11 * time.Hour, time.Minute, false},
		{"the day after, on a clock set back", "the wall clock says which day it is", day, -4 * time.Minute, 13 * time.Hour, true},
		{"a month", "the window is over", rolling, 0, 30 * 24 * time.Hour, true},
		{"a jump of a month", "the window is over by the wall clock", rolling, 30 * 24 * time.Hour, time.Minute, true},
		{"a jump of a week", "the window is not over", rolling, 7 * 24 * time.Hour, time.Minute, false},
		{
			"a month on a clock set back", "the account keeps its time until the clock has reached it",
			rolling, -time.Hour, 30*24*time.Hour + 30*time.Minute, false,
		},
	} {
		for name, open := range ledgers {
			t.Run(c.name+" over "+name, func(t *testing.T) {
				m := clocktest.New(t, noon)
				var log bytes.Buffer
				b, err := spend.New(t.Context(), open(t, slog.New(slog.NewTextHandler(&log, nil))), spend.Budget{
					Name: "cards", Currency: "EUR", Rules: []spend.Rule{c.rule},
				}, nil)
				must(t, err)
				charge := func(id string) spend.Decision {
					t.Helper()
					d, err := b.Charge(context.Background(), spend.Request{
						ID: id, Account: "card", Amount: spend.Money{Minor: 100, Currency: "EUR"},
					})
					must(t, err)
					return d
				}
				if d := charge("first"); !d.Approved || !d.At.Equal(noon) {
					t.Errorf("the first charge is %+v, want it approved at %v", d, noon)
				}
				m.Set(c.set)
				m.Pass(c.pass)
				if d := charge("second"); d.Approved != c.room {
					t.Errorf("the second charge is %+v, want approved %v: %s", d, c.room, c.why)
				}
				jump := c.set > store.DefaultMaxSkew || c.set < -store.DefaultMaxSkew
				if n := strings.Count(log.String(), "jumped"); name == "boltledger" && (n == 1) != jump {
					t.Errorf("the log has %q; want a line for a jump, and only for that", log.String())
				}
			})
		}
	}
}
