package lin

import (
	"hash/maphash"
	"maps"
	"slices"

	"github.com/brimgo/brim/spend"
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
	time   [accounts]int64     // of the last decision
}

// held is a spend from its authorization to its last refund.
type held struct {
	account int
	shared  bool
	expires int64 // 0 if nothing was ever held
	ended   bool
	total   int64
	parts   []part
}

// part is money with the date at which it counts.
type part struct{ at, held, taken, refunded int64 }

func (h held) equal(o held) bool {
	return h.account == o.account && h.expires == o.expires && h.ended == o.ended && h.total == o.total &&
		slices.Equal(h.parts, o.parts)
}

func (h held) open(now int64) bool { return h.expires > now && !h.ended }

func (h held) left(now int64) (n int64) {
	for _, p := range h.parts {
		if h.open(now) {
			n += p.held
		}
	}
	return n
}

func (h held) on(account int) bool { return h.account == account || h.shared && account == team }

func (b book) equal(other state) bool {
	o, ok := other.(book)
	return ok && b.time == o.time && maps.EqualFunc(b.spends, o.spends, held.equal) &&
		maps.EqualFunc(b.first, o.first, func(x, y spendAnswer) bool {
			return x.Approved == y.Approved && x.At == y.At && slices.Equal(x.Figures, y.Figures)
		})
}

func (b book) hash() uint64 {
	h := maphash.Comparable(hashSeed, b.time)
	for number, s := range b.spends {
		h ^= maphash.Comparable(hashSeed, [3]int64{int64(number), int64(len(s.parts)), s.total})
	}
	for number := range b.first {
		h ^= maphash.Comparable(hashSeed, number)
	}
	return h
}

func (m *spendModel) start() state { return book{} }

// figures returns the amounts of every rule of some accounts.
func (m *spendModel) figures(b book, of []int, now int64) (all []figure) {
	for _, account := range of {
		var life, window figure
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
					add(&window)
				}
			}
		}
		all = append(all, figure{}, life, window)
	}
	return all
}

func (m *spendModel) step(before state, c *call) (after []state) {
	b, _ := before.(book)
	q, _ := c.in.(spendRequest)
	latest := int64(0) // of the accounts
	of := q.touches()
	for _, account := range of {
		latest = max(latest, b.time[account])
	}
	if c.out == nil {
		return m.unknown(b, q, latest, c.readings)
	}
	a, _ := c.out.(spendAnswer)
	if first, ok := b.first[q.Number]; ok && q.Verb != remaining {
		if a.Replayed && a.Approved == first.Approved && (a.At == first.At || first.At == 0) &&
			slices.Equal(a.Figures, first.Figures) {
			return []state{b}
		}
		return nil
	}
	if a.Replayed {
		return nil
	}
	for _, now := range m.times(a, latest, c.readings) {
		if next, want := m.decide(b, q, of, now); want.Mistake == a.Mistake && want.Approved == a.Approved &&
			slices.Equal(want.Figures, a.Figures) {
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
		if readings == nil && want.Mistake == "" { // nobody knows the time
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
	if q.Verb == remaining {
		return b, spendAnswer{Figures: m.figures(b, of, now)}
	}
	a := spendAnswer{Approved: true, At: now}
	s, known := b.spends[q.Spend]
	s.parts = slices.Clone(s.parts)
	number := q.Spend
	var err error
	switch q.Verb {
	case authorize, charge:
		number = q.Number
		s = held{account: q.Account, shared: q.Shared, total: q.Amount, parts: []part{{at: now, taken: q.Amount}}}
		if q.Verb == authorize {
			s.expires = now + m.TTL.Microseconds()
			s.parts[0].held, s.parts[0].taken = q.Amount, 0
		}
		a.Approved = m.fits(b, of, now, q.Amount, q.Amount)
	case increase:
		if err = s.usable(known, now); err == nil {
			a.Approved = m.fits(b, of, now, q.Amount, s.total+q.Amount)
			s.total += q.Amount
			s.parts = append(s.parts, part{at: now, held: q.Amount})
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
		return b, spendAnswer{Mistake: err.Error()}
	}
	next := book{spends: b.spends, first: maps.Clone(b.first), time: b.time}
	if a.Approved {
		if next.spends = maps.Clone(b.spends); next.spends == nil {
			next.spends = make(map[int]held)
		}
		next.spends[number] = s
	}
	for _, account := range of {
		next.time[account] = now
	}
	a.Figures = m.figures(next, of, now)
	if next.first == nil {
		next.first = make(map[int]spendAnswer)
	}
	next.first[q.Number] = a
	return next, a
}

// fits reports whether every rule of every account agrees to n more units of a spend of a total.
func (m *spendModel) fits(b book, of []int, now, n, total int64) bool {
	for i, f := range m.figures(b, of, now) {
		sum := f.Used + f.Held + n
		if most := [rules]int64{m.Single, m.Lifetime, m.Window}[i%rules]; i%rules == 0 && total > most ||
			i%rules > 0 && sum > most {
			return false
		}
	}
	return true
}

func (h held) usable(known bool, now int64) error {
	switch {
	case !known:
		return spend.ErrUnknownSpend
	case h.expires == 0, h.ended:
		return spend.ErrHoldEnded
	case h.expires <= now:
		return spend.ErrHoldExpired
	}
	return nil
}

// capture takes n units of the held money, the oldest part first.
func (h *held) capture(known bool, n int64, final bool, now int64) error {
	if err := h.usable(known, now); err != nil {
		return err
	}
	if n > h.left(now) {
		return spend.ErrNotHeld
	}
	for i := range h.parts {
		p := &h.parts[i]
		k := min(n, p.held)
		p.held, p.taken, n = p.held-k, p.taken+k, n-k
	}
	if final || h.left(now) == 0 {
		h.end()
	}
	return nil
}

func (h *held) end() {
	for i := range h.parts {
		h.parts[i].held = 0
	}
	h.ended = true
}

// refund gives n units back, the newest part first.
func (h *held) refund(known bool, n int64) error {
	left := int64(0)
	for _, p := range h.parts {
		left += p.taken - p.refunded
	}
	switch {
	case !known:
		return spend.ErrUnknownSpend
	case n > left:
		return spend.ErrNotCaptured
	}
	for i := range slices.Backward(h.parts) {
		p := &h.parts[i]
		k := min(n, p.taken-p.refunded)
		p.refunded, n = p.refunded+k, n-k
	}
	return nil
}
