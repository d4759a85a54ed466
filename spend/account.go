package spend

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// account is the working set of an account during one decision: the figures
// that its rules need, so that the rules do not read the account's entries
// again.
type account struct {
	key     string
	budget  *checkedBudget
	snap    ledger.Snapshot
	keepIDs int64
	time    int64          // of the last decision, minTime if there was none; of this one after advance
	seq     int64          // number of the last entry
	next    int64          // expiry of the first open hold, or an earlier time; 0 without holds, for no hold expires at 0
	watch   []ledger.Watch // of the account as it is stored
	ends    []end          // of the holds that expire after time, in that order
	pruned  int64          // entries up to this time may have been removed; minTime if none was
	due     int64          // as it is stored: the earliest time at which Prune may have something to do; 0 for never
	mends   []mend         // oldest first
	frozen  string         // why the account declines; empty if it does not
	plan    string         // whose rules the account has; empty for those of the budget
	own     []ownLimit     // sorted by rule
	unit    string         // currency in which the figures are stored
	tallies []*tally       // one for each rule of the budget, in the same order
	unknown []*tally       // of rules that the budget lacks; other processes may use these rules
	added   []ledger.Entry // by this decision
	opened  []ledger.Hold  // by this decision
	closed  []ledger.Hold  // by this decision
}

// end is the time at which holds of an account expire.
type end struct {
	at    int64
	since int64 // the earliest date of a part of these holds, or a date before it
	holds int64 // their number
}

// tally contains the running figures of one rule in one account.
//
// The tally of a rule that counts by date holds the sums of the entries dated
// after its edge. When the edge moves, the tally subtracts the entries that the
// edge passes. It ignores a correction dated before the edge: the corrected
// entry has left the sums already. So a decision reads the entries that leave
// the window, and no entry in the window.
type tally struct {
	name        string
	fingerprint uint64 // of the rule that counted
	rule        *Rule  // nil if the budget has no such rule
	amounts     amounts
	known       bool        // read from the ledger; otherwise the entries are counted first
	countedSeq  int64       // number of the last entry that was counted
	countedAt   int64       // time of the last decision with this rule
	begun       int64       // number of the last entry when the account got the rule; no credit of these entries counts
	reach       int64       // how far back the rule needs entries
	edge        int64       // entries dated after it count
	quiet       int64       // no entry is dated after edge and up to quiet
	sums                    // of a rule without Per
	values      []valueSums // of a rule with Per, in the order of the values; none is zero
	limit       int64       // under which the last decision told shares; 0 if none did
	value       string      // of a tally that [tally.of] has made of such a rule
	ahead       []eviction  // of such a tally: the units that will leave, if they were read ahead; see [tally.all]

	// Of a Leaky rule, after entry baseSeq, when the leak rate last changed; of a Lifetime rule,
	// after the last entry that Prune has removed. Verify begins with it.
	baseSeq    int64
	opening    sums
	openValues []valueSums

	// Of a Leaky rule:
	firstSeq int64        // entries from this number on count
	bucket   store.Record // its Limit is the one last written, at whose rate the time before now leaks
	base     store.Record // the bucket after entry baseSeq
	until    int64        // time at which later replaces the bucket's Limit; 0 if nothing does
	later    store.Limit  // of the rule once a raised limit of the account has ended
}

// Dates before and after all entries.
const (
	minTime = math.MinInt64
	maxTime = math.MaxInt64
)

// anySkew is the MaxSkew of a Leaky rule's bucket. It allows any skew, because
// the bucket goes by the account's time, which never runs back.
const anySkew = time.Duration(math.MaxInt64)

// load reads an account of the budget. An account that the ledger does not have is empty.
func (b *Budgets) load(budget *checkedBudget, snap ledger.Snapshot, key string) (*account, error) {
	a, err := b.loadBare(budget, snap, key)
	if err == nil {
		err = a.useRules()
	}
	return a, err
}

// loadBare is load for a job that uses no rule: all rules are unknown.
func (b *Budgets) loadBare(budget *checkedBudget, snap ledger.Snapshot, key string) (*account, error) {
	stored, err := snap.Account(key)
	if err != nil {
		return nil, err
	}
	a := &account{
		key: key, budget: budget, unit: budget.Currency, snap: snap, keepIDs: b.keepIDs.Microseconds(),
		watch: stored.Watch, time: minTime, pruned: minTime, due: stored.Due,
	}
	if stored.Pruned != 0 {
		a.pruned = stored.Pruned
	}
	if stored.State != nil {
		if a.unknown, err = a.decode(stored.Rules, stored.State); err != nil {
			return nil, err
		}
		if a.unit != budget.Currency {
			return nil, fmt.Errorf("spend: %w: the accounts of budget %q are counted in %.8q and not in %q; "+
				"a budget that counts in another unit needs another name", ErrCurrency, budget.Name, a.unit, budget.Currency)
		}
	}
	return a, nil
}

// useRules gives an account that has been loaded bare the rules of its plan.
func (a *account) useRules() error {
	plan := a.budget.plans[a.plan]
	if plan == nil {
		return fmt.Errorf("spend: %w: an account has the plan %.64q, which budget %q lacks; add it to Budget.Plans of every process",
			ErrBudget, a.plan, a.budget.Name)
	}
	a.budget = plan
	for i := range plan.Rules {
		r, fingerprint := &plan.Rules[i], plan.fingerprints[i]
		at := slices.IndexFunc(a.unknown, func(u *tally) bool { return u.name == r.name && u.fingerprint == fingerprint })
		if at < 0 {
			a.tallies = append(a.tallies, &tally{name: r.name, fingerprint: fingerprint, rule: r, reach: r.reach()})
			continue
		}
		a.unknown[at].rule, a.unknown[at].reach = r, r.reach()
		a.tallies = append(a.tallies, a.unknown[at])
		a.unknown = slices.Delete(a.unknown, at, at+1)
	}
	return nil
}

// open adds a hold of which no part is dated before since.
func (a *account) open(expires, since int64, spendID string) {
	a.opened = append(a.opened, ledger.Hold{Account: a.key, Expires: expires, SpendID: spendID})
	i, found := a.findEnd(expires)
	if !found {
		a.ends = slices.Insert(a.ends, i, end{at: expires, since: since})
	}
	a.ends[i].since = min(a.ends[i].since, since)
	a.ends[i].holds++
	if a.next == 0 || expires < a.next {
		a.next = expires
	}
}

// close removes the hold of a spend.
func (a *account) close(sp *spend) {
	a.closed = append(a.closed, ledger.Hold{Account: a.key, Expires: sp.expires, SpendID: sp.id})
	if i, found := a.findEnd(sp.expires); found && !a.expired(sp) {
		if a.ends[i].holds--; a.ends[i].holds == 0 {
			a.ends = slices.Delete(a.ends, i, i+1)
		}
	}
}

func (a *account) findEnd(at int64) (int, bool) {
	return slices.BinarySearchFunc(a.ends, at, func(e end, at int64) int { return cmp.Compare(e.at, at) })
}

// crowd is the number of ends at which an account is crowded. An account keeps sums for each end,
// so that a decision need not read the holds that have expired.
const crowd = 32

// expiry returns the time at which a new hold expires that lasts for ttl. Holds of a crowded
// account expire together: they last for up to a sixteenth longer. So the ends of an account are
// few, however many holds it has.
func (t *attempt) expiry(ttl time.Duration) int64 {
	at := ending(t.now + ttl.Microseconds())
	for _, a := range t.accounts {
		if _, shared := a.findEnd(at); len(a.ends) < crowd || shared {
			continue
		}
		step := int64(1) << max(0, bits.Len64(uint64(ttl.Microseconds()))-5)
		return ending(at + (step-at%step)%step)
	}
	return at
}

// holds reads the spends whose holds expire up to a time, at most limit and in that order, and
// the earliest expiry of the others, or 0.
func (a *account) holds(upto int64, limit int) (held []*spend, next int64, err error) {
	requests, next, err := a.snap.Holds(a.key, upto, limit)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range requests {
		sp, err := decodeSpend(r.ID, r.Accounts, r.Spend)
		if err != nil {
			return nil, 0, err
		}
		if !slices.Contains(sp.accounts, a.key) {
			return nil, 0, fmt.Errorf("spend: %w: an account has a hold of a spend that it has no part in", store.ErrCorrupt)
		}
		held = append(held, sp)
	}
	return held, next, nil
}

// sooner returns the earlier one of two times, of which 0 is none.
func sooner(s, t int64) int64 {
	if s == 0 || t != 0 && t < s {
		return t
	}
	return s
}

// ending returns the end t as it is stored. A stored 0 means that there is no end, so an end at 0
// is stored as a microsecond later.
func ending(t int64) int64 {
	if t == 0 {
		return 1
	}
	return t
}

// add appends an entry that counts from now.
func (a *account) add(e ledger.Entry) error {
	_, err := a.addDated(e, a.time)
	return err
}

// addDated appends an entry that counts from a date, completes its fields from the account, and
// lets the rules count it.
func (a *account) addDated(e ledger.Entry, date int64) (seq int64, err error) {
	corrects := e.Part != 0
	a.seq++
	e.Account, e.Seq, e.At, e.Dated, e.Currency = a.key, a.seq, a.latest(a.time), date, a.budget.Currency
	if e.Dated == e.At && e.Part == 0 {
		e.Part = e.Seq
	}
	a.added = append(a.added, e)
	a.place(&e)
	for _, u := range a.tallies {
		values := len(u.values)
		if err := u.count(&e, a.time); err != nil {
			return 0, err
		}
		if n := len(u.values); n > mostValues && n > values && !corrects { // more may come from entries of before the rule
			return 0, requestErr("rule %q has used or held money at %d values of the tag %.64q, and may have no more than %d",
				u.name, values, u.rule.per, mostValues)
		}
	}
	return e.Seq, nil
}

// count counts a new entry at the time of its decision.
func (u *tally) count(e *ledger.Entry, now int64) error {
	u.expire(now)
	switch {
	case u.rule.kind == leaky:
		if err := u.fill(e, now); err != nil {
			return err
		}
	case u.rule.counts() && e.Dated > u.edge:
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
func (u *tally) sum(e *ledger.Entry, sign, now int64) error {
	if !u.rule.matches(e.Tags, e.SpendAmount) {
		return nil
	}
	n := u.units(e, now)
	n.used, n.held = n.used*sign, n.held*sign
	if n.used < 0 && u.rule.netted() { // a credit has paid for the rest
		n.used = max(n.used, -u.of(e.Tags).used)
	}
	var ok bool
	if value := e.Tags[u.rule.per]; u.rule.each {
		ok = u.addValue(value, n)
	} else {
		ok = u.sums.add(n)
	}
	if !ok {
		return fmt.Errorf("spend: %w: the sum of the account's spends would be out of range; %s",
			ErrAmount, largest(u.rule.limit.Currency))
	}
	return nil
}

// units are the units that an entry adds to a rule.
type units struct {
	used, held, expires int64
	spends              bool // held becomes used at expires
}

// units returns the units that the entry adds to the rule at now.
func (u *tally) units(e *ledger.Entry, now int64) units {
	n := units{e.Used, e.Held, e.Expires, e.Spends}
	if u.rule.spends() {
		n.used, n.held = u.rule.countOf(e)
	} else if e.Seq > u.begun {
		n.used -= u.credited(e)
	}
	if e.Expires <= now || e.Kind == kindExpire && e.Expires <= e.At { // a later end, which Prune has added
		if e.Spends {
			n.used += n.held
		}
		n.held = 0
	}
	return n
}

// countOf returns the spends that an entry adds to a Count rule: for good, and until its hold ends.
func (r *Rule) countOf(e *ledger.Entry) (used, held int64) {
	switch {
	case r.declines && e.Kind == kindDecline && e.SpendID == "":
		return 1, 0
	case !r.voids:
		return e.Count, e.Pending
	case e.Kind == kindSpend, e.RequestID == e.SpendID && (e.Kind == kindRecord || e.Kind == kindAuthorize):
		return 1, 0
	}
	return 0, 0
}

// fill changes the bucket of a Leaky rule by an entry. Held units are whole numbers, so their sum
// is exact; package store would drop a rest below 2^-40 of the capacity.
func (u *tally) fill(e *ledger.Entry, now int64) error {
	u.passLimit(now)
	n := u.units(e, now)
	if cmp.Or(e.Part, e.Seq) < u.firstSeq || n.used == 0 && n.held == 0 || !u.rule.matches(e.Tags, e.SpendAmount) {
		return nil
	}
	if n := n.used + n.held; n > 0 && u.overfills(n, now) {
		return fmt.Errorf("spend: %w: the sum of the account's spends would be more than 2^53 minor units, "+
			"up to which Leaky rule %q counts; the largest amount is %v",
			ErrAmount, u.name, Money{store.MaxAmount, u.rule.limit.Currency})
	}
	if u.hold(n); u.held < 0 {
		return store.ErrNotHeld
	}
	if u.bucket.Held = float64(u.held); n.used == 0 {
		return nil // the level stays as it was last written, because each write rounds it
	}
	op := store.Op{Bucket: u.bucket.For(u.name), Mode: store.Always, Amount: float64(n.used)}
	_, _, err := u.bucket.Fill(&op, now, anySkew)
	return err
}

// pour puts the units of an expired hold into the bucket of a Leaky rule. They leak from the expiry
// on.
func (u *tally) pour(o open) {
	op := store.Op{Bucket: u.bucket.For(u.name), Mode: store.Always, Amount: float64(o.held)}
	_, _, _ = u.bucket.Fill(&op, o.at, anySkew) // the sum was in range when the money was held
}

// leakBy gives a Leaky rule the limit that it has at now. The time before leaks at the rate last
// written, whatever rate this process has: otherwise a rate that is raised and lowered again would
// make room.
func (u *tally) leakBy(now int64) {
	u.passLimit(now)
	u.setLimit(u.rule.bucket(u.amounts.now), now)
	if u.amounts.until != maxTime {
		u.until, u.later = u.amounts.until, u.rule.bucket(u.amounts.then)
	}
}

// passLimit replaces a raised limit of a Leaky rule whose end is not after now. The limit changes
// at that end, and not at the later time of the decision.
func (u *tally) passLimit(now int64) {
	if u.until != 0 && u.until <= now {
		u.setLimit(u.later, u.until)
	}
}

// setLimit gives the bucket of a Leaky rule another limit from a time on. If the rate changes,
// setLimit writes the level at that time, and Verify begins there.
func (u *tally) setLimit(limit store.Limit, at int64) {
	changed := limit.LeakRate != u.bucket.LeakRate
	if changed {
		leakTo(&u.bucket, at)
	}
	u.bucket.Limit, u.until, u.later = limit, 0, store.Limit{}
	if changed {
		u.rebase()
	}
}

// rebase makes the present figures the base, with which Verify begins.
func (u *tally) rebase() {
	u.base, u.baseSeq, u.opening, u.openValues = u.bucket, u.countedSeq, u.sums.clone(), cloneValues(u.values)
}

// leakTo writes the level at a time, after the leak at the rate last written.
func leakTo(r *store.Record, at int64) {
	r.Level, r.Time = r.State(store.Limit{}, at, anySkew).Level, max(r.Time, at)
}

// overfills reports whether n more units in the bucket of a Leaky rule would make a sum that a
// double does not hold exactly.
func (u *tally) overfills(n, now int64) bool {
	return n > store.MaxAmount-u.level(now)-int64(u.bucket.Held)
}

// level returns the level of the bucket of a Leaky rule, rounded up.
func (u *tally) level(now int64) int64 {
	return int64(math.Ceil(u.bucket.State(u.bucket.Limit, now, anySkew).Level))
}

// room returns the rest of the limit. It may be negative. If it is out of range, room returns the
// nearest number.
func (u *tally) room() int64 {
	return subtract(subtract(u.amounts.now, u.used), u.held)
}

// subtract returns a - b, or the nearest number in range.
func subtract(a, b int64) int64 {
	d := a - b
	switch {
	case b > 0 && d > a:
		return math.MinInt64
	case b < 0 && d < a:
		return math.MaxInt64
	}
	return d
}

// fits reports whether the rule agrees to n more units of a spend, and to that number of further
// spends. The spend began with first units, and has total units after this request.
func (u *tally) fits(n, first, total, spends, now int64, tags map[string]string) bool {
	if !u.rule.matches(tags, first) {
		return true
	}
	switch u.rule.kind {
	case perTransaction:
		return total <= u.amounts.now
	case count, countPer:
		return spends <= u.of(tags).room()
	case leaky:
		bucket := u.bucket
		st, _, err := bucket.Fill(&store.Op{Bucket: bucket.For(u.name), Amount: float64(n)}, now, anySkew)
		return err == nil && st.Accepted && !u.overfills(n, now)
	}
	return n <= u.of(tags).room()
}
