package spendtest

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/brimgo/brim/spend"
)

// model computes the answers of a budget's accounts in the plainest way: it
// keeps every spend and adds up all of them for each question. It is an oracle
// and shares no code with packages spend and store.
//
// Times are microseconds. Doubles hold all rates of Leaky rules and all times
// exactly.
type model struct {
	spends  map[string]*modelSpend
	order   []string
	levels  map[string]*level // of Leaky rules, by account and rule
	own     map[string]own    // limits of accounts, by account and rule
	frozen  map[string]string // reasons, by account
	figures map[string]int64  // the last decision with a rule on an account, by account and rule
	told    map[string]int64  // the limit under which the last decision has told shares, by account and rule
	before  map[string]int64  // the shares before the last decision, by account, rule and category
	noted   []string          // the accounts of that decision
	moves   []modelMove
	refused []modelDecline
	pruned  map[string]int64 // entries of this date and before may be gone, by account
	gone    map[string]int64 // entries of this date and before are gone, by account

	unneeded map[string]unneeded // by account
	last     map[string]int64    // a decision on the account, and mostly the last one
	// canceled has the answers to cancellations, by ID.
	canceled map[string]spend.Decision
}

// own is an account's own limits for a rule.
type own struct {
	set            bool
	amount, raised int64
	until          int64 // of raised
}

type modelSpend struct {
	accounts []string
	tags     map[string]string
	first    int64 // the amount with which it began
	parts    []modelPart
	expires  int64 // 0 for one that was never held
	spends   bool  // the expiry spends the held money
	spent    bool  // it has done so
	ended    bool
	gross    int64
	countAt  int64 // date at which it counts as a spend
	counts   bool  // as a spend, unless it has expired with nothing captured
	gone     bool  // Prune has removed the ID
}

type modelPart struct{ at, held, taken, refunded int64 }

// modelDecline is a declined request for a new spend, which would have begun with first.
type modelDecline struct {
	account   string
	tags      map[string]string
	first, at int64
}

// level is the content of a leaky bucket, as a decision has written it. It never changes.
type level struct {
	units float64
	at    int64
	rate  float64 // of the time since then, whatever the rate is by now
	until int64   // then the rate is later; 0 if that is not known
	later float64
}

// modelRule is a rule of the model.
type modelRule struct {
	kind       string // rolling, day, month, year, single, lifetime, count, counted (a count for each day), leaky
	name       string
	limit      int64
	most       int64 // of an account's own limit
	width      int64 // the window of rolling and count; the period of leaky
	offset     int64 // of the zone from UTC, for day
	begins     int64 // the local time at which a day starts, in microseconds
	tag        string
	value      string
	not        bool   // the rule applies to all others
	credits    bool   // they make room
	declines   bool   // a count has them, too
	voids      bool   // a count has them, too
	tells      int    // which shares decisions tell; 0 is none
	each       bool   // the limit holds for each category
	one        string // the category, of a rule that of has narrowed
	narrowed   bool
	from, upTo int64 // the bounds of the amounts that match; 0 is none
}

func newModel() *model {
	return &model{
		spends: make(map[string]*modelSpend), levels: make(map[string]*level),
		own: make(map[string]own), frozen: make(map[string]string), figures: make(map[string]int64), told: make(map[string]int64), before: make(map[string]int64), pruned: make(map[string]int64),
		gone: make(map[string]int64), unneeded: make(map[string]unneeded), last: make(map[string]int64), canceled: make(map[string]spend.Decision),
	}
}

func (r modelRule) rule() spend.Rule {
	m := money(r.limit)
	width := time.Duration(r.width) * time.Microsecond
	var rule spend.Rule
	switch r.kind {
	case "rolling":
		rule = spend.Rolling(r.name, m, width)
	case "day":
		rule = spend.Calendar(r.name, m, spend.Day, time.FixedZone("fixed", int(r.offset/1e6))).
			DayStarting(time.Duration(r.begins) * time.Microsecond)
	case "month":
		rule = spend.Calendar(r.name, m, spend.Month, time.UTC)
	case "year":
		rule = spend.Calendar(r.name, m, spend.Year, time.UTC)
	case "single":
		rule = spend.PerTransaction(r.name, m)
	case "lifetime":
		rule = spend.Lifetime(r.name, m)
	case "count":
		rule = spend.Count(r.name, r.limit, width)
	case "counted":
		rule = spend.CountPer(r.name, r.limit, spend.Day, time.FixedZone("fixed", int(r.offset/1e6)))
	case "leaky":
		rule = spend.Leaky(r.name, m, width)
	}
	switch {
	case r.not:
		rule = rule.NotMatching(r.tag, r.value)
	case r.tag != "":
		rule = rule.Matching(r.tag, r.value)
	}
	rule = r.bounded(rule)
	if r.each {
		rule = rule.Per("category")
	}
	if r.credits {
		rule = rule.CountsCredits()
	}
	if r.declines {
		rule = rule.CountsDeclines()
	}
	if r.voids {
		rule = rule.CountsVoids()
	}
	return rule.AtMost(r.units(r.most)).Thresholds(r.thresholds()...)
}

// units returns n units of the rule: money, or spends.
func (r modelRule) units(n int64) spend.Money {
	if r.spends() {
		return spend.Money{Minor: n}
	}
	return money(n)
}

// spends reports whether the rule counts spends instead of money.
func (r modelRule) spends() bool { return r.kind == "count" || r.kind == "counted" }

func (r modelRule) matches(tags map[string]string, first int64) bool {
	if r.narrowed && tags["category"] != r.one || first < r.from || r.upTo > 0 && first > r.upTo {
		return false
	}
	return r.tag == "" || (tags[r.tag] == r.value) != r.not
}

// limit returns the limit of the rule in an account at t.
func (m *model) limit(r modelRule, account string, t int64) int64 {
	o := m.own[account+" "+r.name]
	switch {
	case t < o.until:
		return min(o.raised, r.most)
	case o.set:
		return min(o.amount, r.most)
	}
	return r.limit
}

const dayLength = 24 * 3600 * 1e6

// in reports whether money dated at counts for the rule at t.
func (r modelRule) in(at, t int64) bool {
	switch r.kind {
	case "rolling", "count":
		return at > t-r.width && at <= t
	case "day", "counted":
		return (at+r.offset-r.begins)/dayLength == (t+r.offset-r.begins)/dayLength
	}
	return true
}

// alive reports whether the hold is open at t.
func (s *modelSpend) alive(t int64) bool { return s.expires > t && !s.ended }

func (s *modelSpend) captured() bool {
	return slices.ContainsFunc(s.parts, func(p modelPart) bool { return p.taken > 0 })
}

func (s *modelSpend) held(t int64) (n int64) {
	if s.alive(t) {
		for _, p := range s.parts {
			n += p.held
		}
	}
	return n
}

func (s *modelSpend) counting(t int64) bool {
	return s.counts && (s.expires == 0 || s.captured() || s.alive(t) || s.willSpend(t))
}

// willSpend reports whether the hold expires by t and spends its money then.
func (s *modelSpend) willSpend(t int64) bool { return s.spends && !s.ended && s.expires <= t }

// expire lets the holds that spend their money and expire by t do so, in the order of their expiry.
func (m *model) expire(rules []modelRule, t int64) {
	for _, s := range m.spending(t) {
		for _, account := range s.accounts {
			for _, r := range rules {
				if l := m.levels[account+" "+r.name]; l != nil && r.matches(s.tags, s.first) {
					next := l.poured(s.all(), s.expires)
					m.levels[account+" "+r.name] = &next
				}
			}
		}
		for i := range s.parts {
			p := &s.parts[i]
			from := len(m.moves)
			m.move(s, p.held, s.expires, p.at)
			for j := range m.moves[from:] {
				m.moves[from+j].expiry = true
			}
			p.taken, p.held = p.taken+p.held, 0
		}
		s.spent = true
	}
}

// spending returns the holds that expire by t and then spend their money, in the order of their
// expiry.
func (m *model) spending(t int64) (list []*modelSpend) {
	for _, id := range m.order {
		if s := m.spends[id]; s.willSpend(t) && !s.spent {
			list = append(list, s)
		}
	}
	slices.SortStableFunc(list, func(a, b *modelSpend) int { return cmp.Compare(a.expires, b.expires) })
	return list
}

// usage returns the used and held amounts of a rule in an account at t, and the
// level of a leaky rule, if nothing more happens until then.
func (m *model) usage(r modelRule, account string, t int64) (used, held int64, level float64) {
	if r.kind == "single" {
		return 0, 0, 0
	}
	for _, id := range m.order {
		s := m.spends[id]
		if !slices.Contains(s.accounts, account) || !r.matches(s.tags, s.first) {
			continue
		}
		if r.spends() {
			if r.voids && r.in(s.parts[0].at, t) || !r.voids && s.counting(t) && r.in(s.countAt, t) {
				used++
			}
			continue
		}
		for _, p := range s.parts {
			if !r.in(p.at, t) {
				continue
			}
			used += p.taken - p.refunded
			switch {
			case s.alive(t):
				held += p.held
			case s.willSpend(t):
				used += p.held
			}
		}
	}
	for _, x := range m.refused {
		if r.declines && x.account == account && r.matches(x.tags, x.first) && r.in(x.at, t) {
			used++
		}
	}
	switch {
	case r.kind == "leaky":
		level = m.leaked(r, account, t)
		used = int64(math.Ceil(level))
	case r.mayCredit():
		used = m.net(r, account, t)
	}
	return used, held, level
}

// rate returns the leak rate of a leaky rule in an account at t. A limit of zero does not stop the
// leak.
func (m *model) rate(r modelRule, account string, t int64) float64 {
	n := m.limit(r, account, t)
	if n == 0 {
		n = r.limit
	}
	return float64(n) / (float64(r.width) / 1e6)
}

func (m *model) leaked(r modelRule, account string, t int64) float64 {
	l := m.levels[account+" "+r.name]
	if l == nil {
		return 0
	}
	now := *l
	for _, s := range m.spending(t) {
		if slices.Contains(s.accounts, account) && r.matches(s.tags, s.first) {
			now = now.poured(s.all(), s.expires)
		}
	}
	return now.left(t)
}

// all returns the money that the parts hold, also after the expiry.
func (s *modelSpend) all() (n int64) {
	for _, p := range s.parts {
		n += p.held
	}
	return n
}

// poured returns the level after n more units at t.
func (l level) poured(n, t int64) level {
	next := level{units: l.left(t) + float64(n), at: t, rate: l.rate, until: l.until, later: l.later}
	if l.until != 0 && l.until <= t {
		next.rate, next.until = l.later, 0
	}
	return next
}

// left returns the units that are left at t.
func (l level) left(t int64) float64 {
	if l.until != 0 && l.until <= t {
		return level{units: level{units: l.units, at: l.at, rate: l.rate}.left(l.until), at: l.until, rate: l.later}.left(t)
	}
	return max(0, l.units-l.rate*(float64(t-l.at)/1e6))
}

// decided writes the levels of the leaky rules of a process that decides about accounts at t. The
// time until then leaks at the rate of the last decision.
func (m *model) decided(rules []modelRule, accounts []string, t int64) {
	for _, account := range accounts {
		for _, r := range rules {
			if r.kind != "leaky" {
				continue
			}
			l := level{units: m.leaked(r, account, t), at: t, rate: m.rate(r, account, t)}
			if end := m.own[account+" "+r.name].until; t < end {
				l.until, l.later = end, m.rate(r, account, end)
			}
			m.levels[account+" "+r.name] = &l
		}
	}
}

// counts notes that rules have decided about accounts at t.
func (m *model) counts(rules []modelRule, accounts []string, t int64) {
	for _, account := range accounts {
		for _, r := range rules {
			m.figures[account+" "+r.name] = t
		}
	}
}

// forget takes the figures of a rule, and returns how many accounts had some. If the rule comes back,
// it counts all spends and none of the credits.
func (m *model) forget(rule string, accounts []string) (had int64) {
	for _, account := range accounts {
		if _, known := m.figures[account+" "+rule]; known {
			had++
		}
		delete(m.figures, account+" "+rule)
		delete(m.told, account+" "+rule)
	}
	m.uncredit(rule)
	return had
}

// uncredit lets a rule count none of the credits so far.
func (m *model) uncredit(rule string) {
	for _, v := range m.moves {
		delete(v.counted, rule)
	}
}

// mend sets accounts to the time t that have all decided at top, under a clock that was ahead. Entries
// that are dated later count from t on, and holds that have expired stay so. Rules with a window count
// the spends anew.
func (m *model) mend(rules []modelRule, top, t int64) {
	for _, s := range m.spends {
		s.countAt = min(s.countAt, t)
		for i := range s.parts {
			s.parts[i].at = min(s.parts[i].at, t)
		}
		if s.expires <= top {
			s.expires = min(s.expires, t)
		}
	}
	for i := range m.moves {
		v := &m.moves[i]
		v.at, v.date = min(v.at, t), min(v.date, t)
	}
	for i := range m.refused {
		m.refused[i].at = min(m.refused[i].at, t)
	}
	for key, at := range m.figures {
		m.figures[key] = min(at, t)
	}
	for _, r := range rules {
		if r.kind == "day" {
			m.uncredit(r.name)
		}
	}
}

// asked does as decided for a question, which writes nothing, until the result is called.
func (m *model) asked(rules []modelRule, accounts []string, t int64) (written func()) {
	before := m.levels
	m.levels = maps.Clone(before)
	m.decided(rules, accounts, t)
	return func() { m.levels = before }
}

// pour fills the leaky rules with money that is used now, or drains them if n is negative.
func (m *model) pour(rules []modelRule, s *modelSpend, n int64) {
	for _, account := range s.accounts {
		for _, r := range rules {
			if r.matches(s.tags, s.first) {
				m.pourInto(r, account, n)
			}
		}
	}
}

func (m *model) pourInto(r modelRule, account string, n int64) {
	if r.kind != "leaky" || n == 0 {
		return
	}
	l := *m.levels[account+" "+r.name] // as the decision about the money has written it
	l.units = max(0, l.units+float64(n))
	m.levels[account+" "+r.name] = &l
}

// overfills reports whether n more units at t are too many for the leaky bucket of a rule in one of
// the accounts.
func (m *model) overfills(rules []modelRule, s *modelSpend, n, t int64) bool {
	for _, account := range s.accounts {
		for _, r := range rules {
			used, held, _ := m.usage(r, account, t)
			if r.kind == "leaky" && r.matches(s.tags, s.first) && n > most-used-held {
				return true
			}
		}
	}
	return false
}

// room returns the remaining amount of a rule: for a leaky one, the largest that fits.
func (m *model) room(r modelRule, account string, t int64) int64 {
	used, held, level := m.usage(r, account, t)
	if r.kind == "leaky" {
		full := level + float64(held)
		n := math.Ceil(float64(m.limit(r, account, t)) - full)
		for full+n > float64(m.limit(r, account, t)) {
			n--
		}
		return int64(n)
	}
	return m.limit(r, account, t) - used - held
}

// charge adds a spend, a hold or a record, which counts at a date.
func (m *model) charge(rules []modelRule, id string, s *modelSpend, hold bool, n, t, date int64) {
	s.gross, s.counts, s.countAt = n, true, date
	p := modelPart{at: date}
	if hold {
		p.held = n
	} else {
		p.taken = n
	}
	s.parts = []modelPart{p}
	m.spends[id] = s
	m.order = append(m.order, id)
	if !hold {
		m.move(s, n, t, date)
		m.pour(rules, s, n)
	}
}

// capture carries out a capture that is legal or forced.
func (m *model) capture(rules []modelRule, s *modelSpend, n, t int64, final bool) {
	m.pour(rules, s, n)
	if !s.alive(t) {
		if !s.counting(t) {
			s.counts, s.countAt = true, t
		}
		for i := range s.parts {
			s.parts[i].held = 0
		}
		s.ended = true
		s.parts = append(s.parts, modelPart{at: t, taken: n})
		m.move(s, n, t, t)
		return
	}
	for i := range s.parts {
		p := &s.parts[i]
		k := min(n, p.held)
		p.held, p.taken, n = p.held-k, p.taken+k, n-k
		m.move(s, k, t, p.at)
	}
	if n > 0 {
		s.parts = append(s.parts, modelPart{at: t, taken: n})
		m.move(s, n, t, t)
		s.gross += n
	}
	if final || s.held(t) == 0 {
		m.end(s)
	}
}

// end releases the held money.
func (m *model) end(s *modelSpend) {
	for i := range s.parts {
		s.parts[i].held = 0
	}
	s.ended = true
	s.counts = s.captured()
}

// cancel takes back all that a spend holds and has taken.
func (m *model) cancel(rules []modelRule, s *modelSpend, t int64) {
	m.refund(rules, s, s.refundable(), t)
	m.end(s)
	s.counts = false
}

// decrease releases n of the held money, the newest part first.
func (m *model) decrease(s *modelSpend, n, t int64) {
	if n == s.held(t) {
		m.end(s)
		return
	}
	for i := len(s.parts) - 1; i >= 0; i-- {
		k := min(n, s.parts[i].held)
		s.parts[i].held, n = s.parts[i].held-k, n-k
	}
}

func (m *model) refund(rules []modelRule, s *modelSpend, n, t int64) {
	m.pour(rules, s, -n)
	for i := len(s.parts) - 1; i >= 0; i-- {
		p := &s.parts[i]
		k := min(n, p.taken-p.refunded)
		p.refunded, n = p.refunded+k, n-k
		m.move(s, -k, t, p.at)
	}
}

func (s *modelSpend) refundable() (n int64) {
	for _, p := range s.parts {
		n += p.taken - p.refunded
	}
	return n
}

func money(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }
