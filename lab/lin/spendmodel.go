package lin

import (
	"hash/maphash"
	"maps"
	"slices"

	"github.com/brimgo/brim/lab/internal/history"
)

// accounts are three cards and their team.
const accounts = 4

// spendModel is the model of a ledger: it keeps every spend and adds up all of them for each
// answer. It is written from the documentation of package spend.
//
// The time of a decision is its At. If the history has the ledger's clock, that is a reading during
// the call, or the time of the account if the reading is behind it. In a history with a clock of
// the ledger's own, no hold expires, and no window ends.
type spendModel struct{ *budget }

// book is a state of a spendModel. Its maps and slices never change.
type book struct {
	spends map[int]held        // by the number of the request that began them
	first  map[int]spendAnswer // the decisions, by number of request
	now    [accounts]standing
}

// standing is an account apart from its spends.
type standing struct {
	time   int64 // of the last decision
	paid   int64 // by credits, of the rule lifetime
	before int64 // the same of the rule retired
	known  bool  // the account has figures of the rule retired
	frozen bool
	own    [rules]ownLimit
}

// ownLimit is an account's own limit of one rule: raised before until, and then amount if it is
// set.
type ownLimit struct {
	set           bool
	amount        int64
	until, raised int64
}

// over returns the limit that takes the place of the budget's amount.
func (l ownLimit) over(amount, now int64) int64 {
	switch {
	case l.until > now:
		return l.raised
	case l.set:
		return l.amount
	}
	return amount
}

// change carries out a setLimits.
func (l *ownLimit) change(q spendRequest) {
	switch {
	case q.Default:
		*l = ownLimit{}
	case q.Until != 0:
		l.until, l.raised = history.At(q.Until).UnixMicro(), q.Amount
	default:
		l.set, l.amount = true, q.Amount
	}
}

func (b book) equal(other state) bool {
	o, ok := other.(book)
	return ok && b.now == o.now && maps.EqualFunc(b.spends, o.spends, held.equal) &&
		maps.EqualFunc(b.first, o.first, func(x, y spendAnswer) bool {
			return x.At == y.At && x.same(y)
		})
}

// same reports whether two decisions are the same, apart from their times.
func (a spendAnswer) same(o spendAnswer) bool {
	return a.Mistake == o.Mistake && a.Approved == o.Approved && a.Amount == o.Amount && slices.Equal(a.Figures, o.Figures)
}

func (b book) hash() uint64 {
	h := maphash.Comparable(hashSeed, b.now)
	for number, s := range b.spends {
		h ^= maphash.Comparable(hashSeed, [3]int64{int64(number), int64(len(s.parts)), s.total})
	}
	for number := range b.first {
		h ^= maphash.Comparable(hashSeed, number)
	}
	return h
}

func (m *spendModel) start() state { return book{} }

// figures returns the amounts of every rule of some accounts, as a process sees them.
func (m *spendModel) figures(b book, of []int, now int64, old bool) (all []figure) {
	for _, account := range of {
		var life, recent figure
		for _, s := range b.spends {
			if !s.on(account) {
				continue
			}
			for _, p := range s.parts {
				add := func(f *figure) {
					f.Used += p.taken - p.refunded
					if s.open(now) {
						f.Held += p.held
					}
				}
				add(&life)
				if p.at > now-m.Length.Microseconds() {
					add(&recent)
				}
			}
		}
		all = append(all, figure{}, figure{life.Used - b.now[account].paid, life.Held}, recent)
		if old && account == team {
			all = append(all, figure{life.Used - b.now[account].before, life.Held})
		}
	}
	return all
}

func (m *spendModel) step(before state, c *call) (after []state) {
	b, _ := before.(book)
	q, _ := c.in.(spendRequest)
	latest := int64(0) // of the accounts
	of := q.touches()
	for _, account := range of {
		if q.Verb != mend || c.readings == nil { // the clock of a server never steps back
			latest = max(latest, b.now[account].time)
		}
	}
	if c.out == nil {
		return m.unknown(b, q, latest, c.readings)
	}
	a, _ := c.out.(spendAnswer)
	if first, ok := b.first[q.Number]; ok && q.Number != 0 {
		if a.Replayed && (a.At == first.At || first.At == 0) && a.same(first) {
			return []state{b}
		}
		return nil
	}
	if a.Replayed {
		return nil
	}
	for _, now := range m.times(a, latest, c.readings) {
		if next, want := m.decide(b, q, of, now); want.same(a) {
			return []state{next}
		}
	}
	return nil
}

// times returns the possible times of an answer.
func (m *spendModel) times(a spendAnswer, latest int64, readings []int64) (all []int64) {
	if readings == nil && a.At == 0 {
		return []int64{latest}
	}
	if readings == nil {
		if a.At < latest {
			return nil
		}
		return []int64{a.At}
	}
	for _, r := range readings {
		if now := max(r, latest); a.At == 0 || a.At == now {
			all = append(all, now)
		}
	}
	return all
}

// unknown returns the states after a request that may have been decided.
func (m *spendModel) unknown(b book, q spendRequest, latest int64, readings []int64) (after []state) {
	after = []state{b}
	if _, ok := b.first[q.Number]; ok || q.Verb == remaining {
		return after
	}
	for _, now := range m.times(spendAnswer{}, latest, readings) {
		next, want := m.decide(b, q, q.touches(), now)
		if readings == nil && want.Mistake == "" && q.Number != 0 { // nobody knows the time
			want.At = 0
			next.first[q.Number] = want
		}
		if !slices.ContainsFunc(after, next.equal) {
			after = append(after, next)
		}
	}
	return after
}

// decide returns the state after a new request, and its answer.
func (m *spendModel) decide(b book, q spendRequest, of []int, now int64) (book, spendAnswer) {
	switch {
	case q.Verb == remaining:
		return b, spendAnswer{Figures: m.figures(b, of, now, q.Old)}
	case q.Verb == forget && !b.now[team].known:
		return b, spendAnswer{}
	case q.Verb == forget:
		b.now[team].known, b.now[team].before, b.now[team].time = false, 0, now
		return b, spendAnswer{Amount: 1}
	}
	a := spendAnswer{Approved: true, At: now, Amount: q.Amount}
	next := book{spends: b.spends, first: maps.Clone(b.first), now: b.now}
	if next.first == nil {
		next.first = make(map[int]spendAnswer)
	}
	var err error
	switch q.Verb {
	case record: // also what does not fit
		next.put(q.Number, m.begun(q, a.Amount, now))
	case authorize, charge, upTo:
		a.Amount = m.fitting(b, q, of, now)
		if a.Approved = a.Amount > 0; a.Approved {
			next.put(q.Number, m.begun(q, a.Amount, now))
		}
	case credit:
		for i, account := range of {
			figures := m.figures(b, of, now, q.Old)[i*rules:]
			next.now[account].paid += min(q.Amount, figures[lifetime].Used)
			if q.Old && account == team {
				next.now[account].before += min(q.Amount, figures[retired].Used)
			}
		}
	case mend:
		a.Amount = 0
		next.mend(q.Account, now)
	case setLimits, freeze, unfreeze:
		a.Amount = 0
		next.keep(q)
	default:
		a.Approved, err = m.about(&next, q, of, now)
	}
	if err != nil {
		return b, spendAnswer{Mistake: err.Error()}
	}
	if !a.Approved || q.Verb == void || q.Verb == extend {
		a.Amount = 0
	}
	for _, account := range of {
		at := &next.now[account]
		at.time, at.known = now, at.known || q.Old && account == team
	}
	a.Figures = m.figures(next, of, now, q.Old)
	next.first[q.Number] = a
	return next, a
}

// put replaces a spend.
func (b *book) put(number int, s held) {
	if b.spends = maps.Clone(b.spends); b.spends == nil {
		b.spends = make(map[int]held)
	}
	b.spends[number] = s
}

// mend has an account, with all of its spends, go by a clock behind its time.
func (b *book) mend(account int, now int64) {
	for number, s := range b.spends {
		if now >= b.now[account].time || s.account != account {
			continue
		}
		if s.parts = slices.Clone(s.parts); s.expires <= b.now[account].time {
			s.expires = min(s.expires, now)
		}
		for i := range s.parts {
			s.parts[i].at = min(s.parts[i].at, now)
		}
		b.put(number, s)
	}
}

// keep carries out a request about an account alone.
func (b *book) keep(q spendRequest) {
	at := &b.now[q.Account]
	switch q.Verb {
	case setLimits:
		at.own[q.Rule].change(q)
	case freeze, unfreeze:
		at.frozen = q.Verb == freeze
	}
}

// begun returns the new spend of a request.
func (m *spendModel) begun(q spendRequest, amount, now int64) held {
	s := held{account: q.Account, shared: q.Shared, total: amount, parts: []part{{at: now, taken: amount}}}
	if q.Verb == authorize || q.Hold {
		s.expires = now + m.TTL.Microseconds()
		s.parts[0].held, s.parts[0].taken = amount, 0
	}
	return s
}

// about carries out a request about an earlier spend. It reports whether the request is approved.
func (m *spendModel) about(b *book, q spendRequest, of []int, now int64) (approved bool, err error) {
	s, known := b.spends[q.Spend]
	s.parts = slices.Clone(s.parts)
	switch q.Verb {
	case increase:
		if err = s.usable(known, now); err == nil {
			if !m.fits(*b, q, of, now, q.Amount, s.total+q.Amount) {
				return false, nil
			}
			s.total += q.Amount
			s.parts = append(s.parts, part{at: now, held: q.Amount})
		}
	case decrease:
		err = s.decrease(known, q.Amount, now)
	case extend:
		if err = s.usable(known, now); err == nil {
			s.expires = max(s.expires, now+m.TTL.Microseconds())
		}
	case capture:
		err = s.capture(known, q.Amount, q.Final, now)
	case void:
		if err = s.usable(known, now); err == nil {
			s.end()
		}
	case refund:
		err = s.refund(known, q.Amount)
	}
	if err != nil {
		return false, err
	}
	b.put(q.Spend, s)
	if q.Verb == refund { // paid units that it takes back make no room again
		for i, account := range of {
			at := &b.now[account]
			spent := m.figures(*b, of, now, false)[i*rules+lifetime].Used + at.paid
			at.paid, at.before = min(at.paid, spent), min(at.before, spent)
		}
	}
	return true, nil
}

// fitting returns the units that a new spend takes: all of them or none, or of upTo the largest
// part that fits, if that is at least Least.
func (m *spendModel) fitting(b book, q spendRequest, of []int, now int64) int64 {
	least := q.Amount
	if q.Verb == upTo {
		least = q.Least
	}
	for n := q.Amount; n >= least; n-- {
		if m.fits(b, q, of, now, n, n) {
			return n
		}
	}
	return 0
}

// fits reports whether every rule of every account agrees to n more units of a spend of a total,
// and no account is frozen.
func (m *spendModel) fits(b book, q spendRequest, of []int, now, n, total int64) bool {
	for i, f := range m.figures(b, of, now, q.Old) {
		at, most := &b.now[of[min(i/rules, len(of)-1)]], m.Lifetime
		if rule := i % rules; i < len(of)*rules { // the rule retired comes last
			most = at.own[rule].over([rules]int64{m.Single, m.Lifetime, m.Window}[rule], now)
		}
		sum := f.Used + f.Held + n
		if i < len(of)*rules && i%rules == single {
			sum = total
		}
		if at.frozen || sum > most {
			return false
		}
	}
	return true
}
