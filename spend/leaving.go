package spend

import (
	"math/rand/v2"
	"sync"

	"github.com/brimgo/brim/spend/ledger"
)

// A decline tells when its amount would fit, so it needs the entries that will leave the window
// next. Reading them would cost several times as much as the decision. Budgets remembers them
// instead: until an entry is corrected, the entries before the account's last decision stay as they
// are.

// leave is the units of a rule that leave its window together: the sums of the entries of one date,
// and the number of those that are not zero.
type leave struct {
	date, used, held int64
	entries          int
}

// schedule is the units that leave a window first. It never changes.
type schedule struct {
	corrected uint64  // of the account, when the entries were read
	last      version // of the account, when the entries were read
	through   int64   // all entries dated up to here, and after edge, are in leaves
	edge      int64   // of the window when the entries were read
	leaves    []leave // by date; dates whose entries are zero are left out
}

// version tells one state of an account, as it is stored, from another.
type version struct {
	time int64 // of the last decision: no later entry is earlier, unless it is a correction
	seq  int64 // number of the last entry
}

// reserved is the first open holds of an account. It never changes.
type reserved struct {
	held    uint64 // of the account, when the holds were read
	spends  []*spend
	unknown int64 // see outlook
}

// memory remembers schedules and holds of accounts, for as long as it has room. An account's
// marks tell whether they are still right; see [account.marks].
type memory struct {
	mu        sync.Mutex
	schedules map[ruleIn]schedule
	holds     map[string]reserved
	size      int // number of leaves and holds
}

// ruleIn is a rule in an account.
type ruleIn struct {
	account, name string
	fingerprint   uint64
	value         string // of a rule with Per
}

// memorySize is the number of leaves and holds that a memory keeps, at some 32 to 300 bytes each.
const memorySize = 1 << 18

func newMemory() *memory {
	return &memory{schedules: make(map[ruleIn]schedule), holds: make(map[string]reserved)}
}

func (m *memory) schedule(key ruleIn) schedule {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.schedules[key]
}

func (m *memory) keepSchedule(key ruleIn, s schedule) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size += 1 + len(s.leaves)
	if old, ok := m.schedules[key]; ok {
		m.size -= 1 + len(old.leaves)
	}
	m.schedules[key] = s
	m.shrink()
}

func (m *memory) reserved(account string) (reserved, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.holds[account]
	return r, ok
}

func (m *memory) keepReserved(account string, r reserved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size += 1 + len(r.spends)
	if old, ok := m.holds[account]; ok {
		m.size -= 1 + len(old.spends)
	}
	m.holds[account] = r
	m.shrink()
}

// shrink forgets any schedules and holds until the rest has room.
func (m *memory) shrink() {
	for key, s := range m.schedules {
		if m.size <= memorySize {
			return
		}
		m.size -= 1 + len(s.leaves)
		delete(m.schedules, key)
	}
	for account, r := range m.holds {
		if m.size <= memorySize {
			return
		}
		m.size -= 1 + len(r.spends)
		delete(m.holds, account)
	}
}

// marks are random numbers that change with an account's past: corrected when an entry gets a date
// before its own time, held when a hold changes. A number, unlike a counter, tells a
// change that was rolled back from the one that followed in its place.
type marks struct{ corrected, held uint64 }

// note changes the marks of an account for a new entry.
func (m *marks) note(e *ledger.Entry) {
	if e.Dated != e.At {
		m.corrected = rand.Uint64()
	}
	if e.Held != 0 || e.Kind == kindExtend {
		m.held = rand.Uint64()
	}
}

// openHolds returns the spends of the account's first open holds, at most limit, in the order of
// expiry, and the earliest expiry of the others, or maxTime. It may return expired holds that this
// decision has ended.
func (a *account) openHolds(limit int) (spends []*spend, unknown int64, err error) {
	switch {
	case a.next == 0:
		return nil, maxTime, nil
	case limit == unlimited && a.allHolds != nil:
		return a.allHolds.spends, a.allHolds.unknown, nil
	case limit == horizon:
		if r, ok := a.memory.reserved(a.key); ok && r.held == a.read.held {
			return r.spends, r.unknown, nil
		}
	}
	spends, unknown, err = a.holds(maxTime, limit)
	if unknown == 0 {
		unknown = maxTime
	}
	r := reserved{held: a.read.held, spends: spends, unknown: unknown}
	switch {
	case err != nil:
	case limit == unlimited:
		a.allHolds = &r
	case limit == horizon:
		a.memory.keepReserved(a.key, r)
	}
	return spends, unknown, err
}

// leaving calls each with the units of each date that leaves the window of the rule, in that order,
// until each returns true. It goes through limit entries and those of the same date as the last of
// them; among many declines it goes through fewer. If there are more, more is set, and all entries
// dated up to through were among them.
func (u *tally) leaving(a *account, limit int, each func(leave) bool) (through int64, more bool, err error) {
	if u.ahead != nil {
		for _, l := range u.ahead {
			if each(l) {
				break
			}
		}
		return 0, false, nil
	}
	// The entries of this decision are not stored yet, so they are added here. An entry that
	// corrects another has the date of a stored entry that is not zero, so this date is among the
	// leaves: a release has the date of its hold.
	added := make(map[int64]leave)
	for i := range a.added {
		l := added[a.added[i].Dated]
		u.gather(&l, &a.added[i])
		added[a.added[i].Dated] = l
	}
	key := ruleIn{a.key, u.name, u.fingerprint, u.value}
	s := a.memory.schedule(key).known(a.stands)
	if s.corrected != a.read.corrected || s.edge > u.edge || s.through < u.edge || limit == unlimited {
		s = schedule{corrected: a.read.corrected, last: a.stands, through: u.edge}
	}
	s = s.from(u.edge)
	leaves := s.leaves
	// Later decisions may add entries of this very time. So the memory keeps none of that date.
	past := a.time - 1
	seen := 0
	for left, page := limit, firstPage; ; page = min(7*page, maxPage) {
		for _, l := range leaves {
			seen += l.entries
			l.used, l.held = l.used+added[l.date].used, l.held+added[l.date].held
			if each(l) {
				return 0, false, nil
			}
			if seen >= limit {
				return l.date, true, nil
			}
		}
		if s.through >= past {
			return 0, false, u.leavingNow(a, each)
		}
		if left <= 0 {
			return s.through, true, nil
		}
		entries, to, err := a.page(s.through, past, min(left, page))
		if err != nil {
			return 0, false, err
		}
		left -= len(entries)
		leaves = u.leaves(entries)
		if s.through = min(to, past); limit != unlimited { // later entries may get a date before to
			s.leaves = append(s.leaves[:len(s.leaves):len(s.leaves)], leaves...)
			a.memory.keepSchedule(key, s)
		}
	}
}

// A decline reads firstPage entries at first, which are mostly enough, and then the rest of its
// horizon at once. Other reads go on with greater pages.
const (
	firstPage = horizon / 8
	maxPage   = 1 << 14
)

// from returns s without the leaves that have left a window with this edge.
func (s schedule) from(edge int64) schedule {
	i := 0
	for i < len(s.leaves) && s.leaves[i].date <= edge {
		i++
	}
	s.edge, s.leaves = edge, s.leaves[i:]
	return s
}

// earlyReading is how long before a decision its ledger may have read the clock, in microseconds;
// see [ledger.Snapshot].
const earlyReading = 1_000_000

// known returns the part of s that is right in the present state of the account. Nothing may have
// been stored since a clock that was ahead, and then set back, so a decision may have added entries
// that are dated before the time at which s was read. The last decision at that time may have been
// rolled back, so the time of a decision since then can be as early as a reading can be.
func (s schedule) known(present version) schedule {
	if s.last == present {
		return s
	}
	s.through = min(s.through, s.last.time-1-earlyReading)
	i := len(s.leaves)
	for i > 0 && s.leaves[i-1].date > s.through {
		i--
	}
	s.last, s.leaves = present, s.leaves[:i:i]
	return s
}

// leaves returns the sums of entries, which are in the order of their dates.
func (u *tally) leaves(entries []ledger.Entry) (list []leave) {
	for i := 0; i < len(entries); {
		l := leave{date: entries[i].Dated}
		for ; i < len(entries) && entries[i].Dated == l.date; i++ {
			u.gather(&l, &entries[i])
		}
		if l.entries > 0 {
			list = append(list, l)
		}
	}
	return list
}

// leavingNow calls each with the units that are dated at this very time, if there are any.
func (u *tally) leavingNow(a *account, each func(leave) bool) error {
	l := leave{date: a.time}
	_, err := a.dated(a.time-1, maxTime, func(e *ledger.Entry) error {
		u.gather(&l, e)
		return nil
	})
	if err == nil && l.entries > 0 {
		each(l)
	}
	return err
}

// gather adds the units of an entry to l.
func (u *tally) gather(l *leave, e *ledger.Entry) {
	if !u.takes(e.Tags, e.SpendAmount) {
		return
	}
	n := u.units(e)
	if l.used, l.held = l.used+n.used, l.held+n.held; n.used != -n.held {
		l.entries++
	}
}
