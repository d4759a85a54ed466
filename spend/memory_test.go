package spend

import (
	"errors"
	"testing"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// TestMemorySize: a memory keeps 2^18 leaves and holds, counts them right, and forgets no more than
// it must.
func TestMemorySize(t *testing.T) {
	const most = 1 << 18
	schedules := func(n int) schedule { return schedule{leaves: make([]leave, n)} }
	holds := func(n int) reserved { return reserved{spends: make([]*spend, n)} }
	for _, c := range []struct {
		name string
		keep func(m *memory)
		size int // 0 if something must go
	}{
		{"a schedule", func(m *memory) { m.keepSchedule(ruleIn{account: "a"}, schedules(5)) }, 6},
		{"the holds of an account", func(m *memory) { m.keepReserved("a", holds(5)) }, 6},
		{"a schedule in the place of another", func(m *memory) {
			m.keepSchedule(ruleIn{account: "a"}, schedules(5))
			m.keepSchedule(ruleIn{account: "a"}, schedules(2))
		}, 3},
		{"holds in the place of others", func(m *memory) {
			m.keepReserved("a", holds(5))
			m.keepReserved("a", holds(2))
		}, 3},
		{"two accounts", func(m *memory) {
			m.keepSchedule(ruleIn{account: "a"}, schedules(0))
			m.keepSchedule(ruleIn{account: "b"}, schedules(3))
			m.keepReserved("a", holds(0))
			m.keepReserved("b", holds(4))
		}, 11},
		{"the largest schedule", func(m *memory) { m.keepSchedule(ruleIn{account: "a"}, schedules(most-1)) }, most},
		{"the most holds", func(m *memory) { m.keepReserved("a", holds(most-1)) }, most},
		{"one schedule too many", func(m *memory) {
			m.keepSchedule(ruleIn{account: "a"}, schedules(most-2))
			m.keepSchedule(ruleIn{account: "b"}, schedules(3))
		}, 0},
		{"one account too many", func(m *memory) {
			m.keepReserved("a", holds(most-2))
			m.keepReserved("b", holds(3))
		}, 0},
		{"a schedule too many beside holds", func(m *memory) {
			m.keepReserved("a", holds(most-1))
			m.keepSchedule(ruleIn{account: "a"}, schedules(0))
		}, most},
	} {
		m := newMemory()
		c.keep(m)
		size := 0
		for _, s := range m.schedules {
			size += 1 + len(s.leaves)
		}
		for _, r := range m.holds {
			size += 1 + len(r.spends)
		}
		if m.size != size || size == 0 || size > most || c.size != 0 && size != c.size {
			t.Errorf("%s: the memory has %d leaves and holds and counts %d; want %d", c.name, size, m.size, c.size)
		}
	}
}

// TestMarks: what a memory has read stays right until an entry gets an earlier date, or a hold
// changes.
func TestMarks(t *testing.T) {
	for _, c := range []struct {
		name            string
		e               ledger.Entry
		corrected, held bool
	}{
		{"a charge", ledger.Entry{At: 5, Dated: 5, Used: 1}, false, false},
		{"a correction", ledger.Entry{At: 5, Dated: 4, Used: 1}, true, false},
		{"a hold of one unit", ledger.Entry{At: 5, Dated: 5, Held: 1}, false, true},
		{"a release", ledger.Entry{At: 5, Dated: 4, Held: -2}, true, true},
		{"an extension", ledger.Entry{At: 5, Dated: 5, Kind: kindExtend}, false, true},
	} {
		m := marks{1, 1}
		m.note(&c.e)
		if (m.corrected != 1) != c.corrected || (m.held != 1) != c.held {
			t.Errorf("%s changes the marks to %+v; want corrected changed: %v, held changed: %v", c.name, m, c.corrected, c.held)
		}
	}
}

// TestVerifyWithoutEntries: a bucket that no entry has changed since its rule did is still
// compared.
func TestVerifyWithoutEntries(t *testing.T) {
	u := &tally{
		name: "r", rule: &Rule{kind: leaky}, known: true, baseSeq: 5, countedSeq: 5,
		bucket: store.Record{Level: 3}, base: store.Record{Level: 3},
	}
	a := &account{seq: 5, tallies: []*tally{u}}
	if err := a.verify(nil); err != nil {
		t.Errorf("a bucket as it was when its rule changed: %v", err)
	}
	u.bucket.Level = 4
	if err := a.verify(nil); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a bucket that nothing has filled: %v; want ErrCorrupt", err)
	}
}

// TestScheduleAfterADecision cuts a schedule that was read in another state of the account.
func TestScheduleAfterADecision(t *testing.T) {
	last := version{time: 5_000_000, seq: 7}
	read := schedule{last: last, through: 9_000_000, leaves: []leave{{date: 1}, {date: 3_999_998}, {date: 3_999_999}, {date: 4_000_000}}}
	for _, c := range []struct {
		name    string
		present version
		through int64
		leaves  int
		why     string
	}{
		{"the same state", last, 9_000_000, 4, "nothing was added"},
		{
			"a later state",
			version{time: 6_000_000, seq: 8},
			3_999_999, 3,
			"the last decision may have been rolled back, and a decision since then may go by a reading of a second before it",
		},
		{"a state that another transaction has made", version{time: 5_000_000, seq: 6}, 3_999_999, 3, "the decision was rolled back"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := read.known(c.present)
			if got.through != c.through || len(got.leaves) != c.leaves || got.last != c.present {
				t.Errorf("%d leaves through %d of %+v; want %d through %d\nwhy: %s", len(got.leaves), got.through, got.last, c.leaves, c.through, c.why)
			}
		})
	}
}
