package figures

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Past is the account of a tally, as far as the tally asks for it. Its entries are placed: they
// have the dates at which they count. The entries of the present decision are among them.
type Past interface {
	// Time returns the time of the account.
	Time() int64
	// Seq returns the number of the last entry.
	Seq() int64
	// Removed returns the date up to which entries may have been removed, or MinTime.
	Removed() int64
	// Latest returns a time, or that of a later entry: the At of entries may be ahead of the
	// account.
	Latest(at int64) int64
	// Page returns about limit of the entries after a place that are dated up to a time, in the
	// order of their places. It has read all of them up to through, which is after the first place.
	Page(after ledger.Place, upto int64, limit int) (entries []ledger.Entry, through ledger.Place, err error)
}

// Tally contains the running figures of one rule in one account.
//
// The tally of a rule that counts by date holds the sums of the entries dated
// after its edge. When the edge moves, the tally subtracts the entries that the
// edge passes. It ignores a correction dated before the edge: the corrected
// entry has left the sums already. So a decision reads the entries that leave
// the window, and no entry in the window.
type Tally struct {
	counter
	Amounts    Amounts // of the rule in the account
	Told       int64   // limit under which the last decision told shares; 0 if none did
	known      bool    // read from the ledger; otherwise the entries are counted first
	countedSeq int64   // number of the last entry that was counted
	edge       int64   // entries dated after it count
	end        int64   // of the period of a rule that repeats; the next one does not begin before
	quiet      int64   // no entry is dated after edge and up to quiet
	all
	*ground // of a rule that no entry leaves by its date; else nil
}

// ground is that which Verify begins with: the figures of a Leaky rule after entry baseSeq, when
// the leak rate last changed; those of a Lifetime rule after the last entry that Prune has removed.
type ground struct {
	baseSeq int64
	opening all

	// Of a Leaky rule. Its held units are those of the sums.
	firstSeq int64 // entries from this number on count
	bucket   bucket
	base     store.Record // the bucket after entry baseSeq
}

// clone returns a copy, or nil.
func (g *ground) clone() *ground {
	if g == nil {
		return nil
	}
	c := *g
	c.opening = g.opening.clone()
	return &c
}

// leaks reports whether the ground is that of a Leaky rule.
func (g *ground) leaks() bool { return g != nil && g.firstSeq != 0 }

// Amounts is the limit of a rule in an account, as it changes with time.
type Amounts struct {
	Now   int64
	Until int64 // Then takes the place of Now at that time; MaxTime if it never does
	Then  int64
}

// Known reports whether the tally has figures: the account had the rule at its last decision.
func (u *Tally) Known() bool { return u.known && u.Rule.Span() != Alone }

// Advance brings the rule from last, the account's time at its last decision, to now. A rule that
// is new to the account counts its entries.
func (u *Tally) Advance(p Past, last, now int64) error {
	if !u.known {
		if u.Rule.Counts() && p.Seq() > MostBegun {
			return ErrMany
		}
		u.known = true
		return u.begin(p, now)
	}
	u.expire(now)
	switch u.Rule.Span() {
	case Leaks:
		if p.Latest(last) > last { // the entries do not tell when they happened
			u.rebase()
		}
	case Rolls:
		return u.slide(p, last, now)
	case Repeats:
		return u.turn(p, last, now)
	}
	return nil
}

// ErrMany is the error of a rule that is new to an account with many entries. They are counted by
// [Tally.Open] and [Tally.Add] then, while others decide.
var ErrMany = errors.New("spend: a rule has many entries to count")

// MostBegun is the number of entries up to which an account lets a decision count them for a new
// rule: they are read at once, and others of the same transaction wait for that. Tests change it.
var MostBegun int64 = 2 * Horizon

// begin counts the ledger's entries for a rule that is new to the account. It counts no credit: the
// entries of a window do not tell for which units earlier credits have paid.
func (u *Tally) begin(p Past, now int64) error {
	after, counts := u.Open(p, now)
	if !counts || p.Seq() == 0 {
		return nil
	}
	_, err := dated(p, 2*Horizon, after, MaxTime, func(e *ledger.Entry) error { return u.Add(e, now) })
	u.Ready(p)
	return err
}

// Open begins the tally of a rule that is new to the account, at a time. If the rule counts entries
// by date, it has yet to count those dated after the one returned.
func (u *Tally) Open(p Past, now int64) (after int64, counts bool) {
	u.begun, u.countedSeq = p.Seq(), p.Seq()
	if u.Rule.Span() == Leaks {
		u.firstSeq, u.baseSeq, u.bucket.Record = p.Seq()+1, p.Seq(), store.NewRecord(now)
		u.bucket.Limit = u.Rule.Bucket(u.Amounts.Now)
		u.base = u.bucket.Record
		return MaxTime, false
	}
	if !u.Rule.Counts() {
		return MaxTime, false
	}
	if u.Rule.Span() == Repeats {
		_, end := u.Rule.PeriodAt(now)
		if u.end == 0 || u.end < end { // 0 is none
			u.end = end
		}
	}
	u.quiet, u.edge = now, u.Rule.edgeIn(p, now)
	return u.edge, true
}

// Add counts an entry of before the tally was opened, at that time.
func (u *Tally) Add(e *ledger.Entry, now int64) error {
	if e.Dated <= u.edge {
		return nil
	}
	u.quiet = min(u.quiet, e.Dated-1)
	return u.sum(e, 1, now)
}

// Ready tells that all entries of before are counted.
func (u *Tally) Ready(p Past) {
	if u.known = true; u.Rule.based() && p.Removed() != MinTime {
		u.rebase()
	}
}

// For returns a copy with a rule that is new to an account, which counts none of the credits so
// far.
func (u *Tally) For(r *Rule, p Past) *Tally {
	c := *u
	c.Rule, c.begun, c.all, c.ground = r, p.Seq(), u.all.clone(), u.ground.clone()
	return &c
}

// slide moves the edge of a window to its place at now.
//
// slide remembers in quiet up to which date there is no entry. Hours may pass between the
// entries of an account, and a decision in between then reads nothing.
func (u *Tally) slide(p Past, last, now int64) error {
	edge := u.Rule.edgeIn(p, now)
	if edge >= last { // no entry is dated after the last decision, so all have left
		u.edge, u.all = edge, all{}
		return nil
	}
	from := max(u.edge, u.quiet)
	u.edge = edge
	if from >= edge {
		return nil
	}
	through, err := dated(p, Horizon, from, edge, func(e *ledger.Entry) error {
		return u.sum(e, -1, now)
	})
	u.quiet = through
	return err
}

// turn begins a period that has begun by now. If the zone of the rule has changed, or its rules,
// the period begins at another time. The rule then goes on from the earlier beginning, and the next
// period begins after the end of the old one: otherwise each change of zone would make room.
func (u *Tally) turn(p Past, last, now int64) error {
	start, end := u.Rule.PeriodAt(now)
	switch edge := u.Rule.edgeIn(p, now); {
	case edge == u.edge || edge > u.edge && start < u.end:
		return nil
	case edge > u.edge && edge >= last: // no entry is dated after the last decision, so all have left
		u.edge, u.end, u.all = edge, end, all{}
		return nil
	case edge > u.edge: // the rule has missed the beginning
		u.end = 0
	}
	u.all = all{}
	return u.begin(p, now)
}

// Watch returns the range of dates that the next decision will read, if there is one: it moves with
// the clock, and begins after a date.
func (u *Tally) Watch(now int64) (w ledger.Watch, ok bool) {
	if u.Rule.Span() != Rolls || u.quiet >= now { // without an entry in the window, nothing will leave it
		return w, false
	}
	return ledger.Watch{After: max(u.edge, u.quiet), Width: u.Rule.Length.Microseconds()}, true
}

// Count counts a new entry at the time of its decision.
func (u *Tally) Count(e *ledger.Entry, now int64) error {
	u.expire(now)
	switch {
	case u.Rule.Span() == Leaks:
		if err := u.fill(e, now); err != nil {
			return err
		}
	case u.Rule.Counts() && e.Dated > u.edge:
		u.quiet = min(u.quiet, e.Dated-1)
		if err := u.sum(e, 1, now); err != nil {
			return err
		}
	}
	u.countedSeq = e.Seq
	return nil
}

// sum adds an entry to the sums if sign is 1, and subtracts it if sign is -1. The sums are those of
// now: the units of holds that have expired by then have left them.
func (u *Tally) sum(e *ledger.Entry, sign, now int64) error {
	if !u.Rule.Matches(e.Tags, e.SpendAmount) {
		return nil
	}
	n := u.units(e, now)
	n.used, n.held = n.used*sign, n.held*sign
	if n.used < 0 && u.Rule.netted() { // a credit has paid for the rest
		n.used = max(n.used, -u.Of(e.Tags).used)
	}
	var ok bool
	if value := e.Tags[u.Rule.Per]; u.Rule.Each {
		ok = u.addValue(value, n)
	} else {
		ok = u.add(n)
	}
	if !ok {
		return fmt.Errorf("spend: %w: the sum of the account's spends would be out of range; %s",
			money.ErrAmount, money.Largest(u.Rule.Limit.Currency))
	}
	return nil
}

// Credit returns the part of a credit that the rule counts, to be stored with the entry. It is at
// most the used amount, and zero if the rule counts no credits.
func (u *Tally) Credit(e *ledger.Entry, now int64) ledger.Credited {
	if !u.Rule.Credits || !u.Rule.Matches(e.Tags, e.SpendAmount) {
		return ledger.Credited{}
	}
	used := u.Of(e.Tags).used
	if u.Rule.Span() == Leaks {
		used = u.bucket.level(now)
	}
	return ledger.Credited{Rule: u.Name, Counts: u.fingerprint, Amount: min(e.Amount, used)}
}

// fill changes the bucket of a Leaky rule by an entry. Held units are whole numbers, so their sum
// is exact; package store would drop a rest below 2^-40 of the capacity.
func (u *Tally) fill(e *ledger.Entry, now int64) error {
	if u.bucket.passLimit(now) {
		u.rebase()
	}
	n := u.units(e, now)
	if cmp.Or(e.Part, e.Seq) < u.firstSeq || n.used == 0 && n.held == 0 || !u.Rule.Matches(e.Tags, e.SpendAmount) {
		return nil
	}
	if n := n.used + n.held; n > 0 && u.bucket.overfills(n, now) {
		return errOverfull(u.Rule)
	}
	if u.hold(n); u.held < 0 {
		return store.ErrNotHeld
	}
	if u.bucket.Held = float64(u.held); n.used == 0 {
		return nil // the level stays as it was last written, because each write rounds it
	}
	return u.bucket.pour(n.used, now)
}

// expire takes away the units of the holds that have expired by now, or makes them used. In a Leaky
// rule they leak from the expiry on.
func (u *Tally) expire(now int64) {
	if !u.leaks() {
		u.expireAll(now)
		return
	}
	for len(u.open) > 0 && u.open[0].at <= now {
		o := u.open[0]
		if u.bucket.passLimit(o.at) { // while the hold is open, so that Verify begins with it
			u.rebase()
		}
		if u.held, u.open = u.held-o.held, u.open[1:]; o.spends {
			_ = u.bucket.pour(o.held, o.at) // the sum was in range when the money was held
		}
	}
	u.bucket.Held = float64(u.held)
}

// Leak gives a Leaky rule the limit that it has at now. The time before leaks at the rate last
// written.
func (u *Tally) Leak(now int64) {
	if u.Rule.Span() != Leaks {
		return
	}
	passed := u.bucket.passLimit(now)
	if u.bucket.setLimit(u.Rule.Bucket(u.Amounts.Now), now) || passed {
		u.rebase()
	}
	if u.Amounts.Until != MaxTime {
		u.bucket.until, u.bucket.later = u.Amounts.Until, u.Rule.Bucket(u.Amounts.Then)
	}
}

// rebase makes the present figures the base, with which Verify begins.
func (u *Tally) rebase() {
	u.base, u.baseSeq, u.opening = u.bucket.Record, u.countedSeq, u.all.clone()
}

// Mend brings the tally from top, a time of a wrong clock, back to now. A rule with a window counts
// the entries anew, which have other dates now. A bucket that has a time after now is full: more
// may have leaked than there was time for. Verify begins with it, because the entries do not tell
// when they happened.
func (u *Tally) Mend(p Past, now, top int64) error {
	if u.Rule.Windowed() {
		u.all, u.end = all{}, 0
		return u.begin(p, now)
	}
	if u.ground == nil {
		return nil
	}
	move := func(s *sums) { s.mend(now, top) }
	u.each(move)
	u.opening.each(move)
	u.expire(now)
	switch {
	case u.Rule.Span() == Forever && u.edge >= now: // the rule began after a Prune by the wrong clock
		u.edge = now - 1
		u.rebase()
	case u.Rule.Span() == Leaks:
		if b := &u.bucket; b.Time > now {
			b.Time = now
			u.Leak(now)
			b.Level = max(b.Level, b.Capacity)
		}
		u.rebase()
	}
	return nil
}

// A read of entries begins with a page of about Horizon, and goes on with greater ones.
const (
	Horizon = 32
	maxPage = 1 << 14
)

// Unlimited is the horizon of a read that may take its time.
const Unlimited = math.MaxInt

// dated calls each for the entries dated after one time and up to another, in the order of their
// dates. It begins with a page of limit. No other entry is dated up to through, which is not before
// upto.
func dated(p Past, limit int, after, upto int64, each func(*ledger.Entry) error) (through int64, err error) {
	place := ledger.EndOf(after)
	for ; place.Compare(ledger.EndOf(upto)) < 0; limit = min(2*limit, maxPage) {
		entries, to, err := p.Page(place, upto, limit)
		if err != nil {
			return after, err
		}
		for i := range entries {
			if err := each(&entries[i]); err != nil {
				return after, err
			}
		}
		place = to
	}
	return place.Dated, nil
}
