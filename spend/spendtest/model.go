package spendtest

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/spend"
)

// Model computes the answers of a ledger in the plainest way: it keeps every spend and adds up all
// of them for each question. It is an oracle and shares no code with packages spend and store.
// [Random] compares a ledger with it. A harness that has requests of its own, with faults or with
// many callers, does the same by [Model.Decide].
//
// Whoever adds a request, or a field of one, adds it to [Request] and to the model once, in
// prepare; a kind of rule is added to [Rule], in its methods, in, usage, prune and mend, and to the
// lists of random rules. All harnesses then judge it.
//
// Times are microseconds. Doubles must hold all rates of Leaky rules and all times exactly. A
// Model is for one goroutine.
type Model struct {
	// Others, if set, returns the rules of the budget's other plans. Lifetime, Leaky and Calendar
	// rules of these go on counting in an account that had the plan.
	Others  Rules
	spends  map[string]*modelSpend
	order   []string               // the IDs of spends, in their order
	levels  map[string]*level      // of Leaky rules, by account and rule
	own     map[string]own         // limits of accounts, by account and rule
	frozen  map[string]string      // reasons, by account
	figures map[string]bool        // whether the account has figures of a rule, by account and rule
	told    map[string]int64       // the limit under which the last decision has told shares, by account and rule
	moves   map[string][]modelMove // by account
	refused []modelDecline
	pruned  map[string]int64 // entries of this date and before may be gone, by account
	gone    map[string]int64 // entries of this date and before are gone, by account

	unneeded map[string]unneeded // by account
	last     map[string]int64    // the last decision on the account
	// canceled has the answers to cancellations, by ID.
	canceled map[string]spend.Decision
	known    map[string]known // the requests that were decided, by ID
}

// known is a request that was decided: its first account, and whether it was approved.
type known struct {
	account  string
	approved bool
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
	first    int64 // the amount with which it began; 0 for an authorization of nothing
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

// unborn reports whether the spend was canceled before it began, and has taken nothing since.
func (s *modelSpend) unborn() bool { return len(s.parts) == 0 }

type modelPart struct{ at, held, taken, refunded int64 }

// modelDecline is a declined request for a new spend, which would have begun with first.
type modelDecline struct {
	account   string
	tags      map[string]string
	first, at int64
}

// decline notes a decline. The order of requests does not matter, so that [Model.Equal] finds it
// equal.
func (m *Model) decline(x modelDecline) {
	at := slices.IndexFunc(m.refused, func(y modelDecline) bool {
		return cmp.Or(cmp.Compare(y.at, x.at), cmp.Compare(y.account, x.account), cmp.Compare(y.first, x.first)) > 0
	})
	if at < 0 {
		at = len(m.refused)
	}
	m.refused = slices.Insert(slices.Clip(m.refused), at, x)
}

// level is the content of a leaky bucket, as a decision has written it. It never changes.
type level struct {
	units float64
	at    int64
	rate  float64 // of the time since then, whatever the rate is by now
	until int64   // then the rate is later; 0 if that is not known
	later float64
}

// Rule is a rule as the model has it; [Rule.Rule] returns that of package spend. The Kind is
// rolling, day, month, year, single, lifetime, count, counted (a count for each day) or leaky.
// Width is the window of rolling and count, and the period of leaky, in microseconds.
type Rule struct {
	Kind       string
	Name       string
	Limit      int64
	Most       int64 // of an account's own limit
	Width      int64
	offset     int64 // of the zone from UTC, for day
	begins     int64 // the local time at which a day starts, in microseconds
	tag        string
	value      string
	not        bool   // the rule applies to all others
	Credits    bool   // they make room
	Shadow     bool   // it refuses nothing
	declines   bool   // a count has them, too
	voids      bool   // a count has them, too
	tells      int    // which shares decisions tell; 0 is none
	each       bool   // the limit holds for each category
	one        string // the category, of a rule that of has narrowed
	narrowed   bool
	from, upTo int64 // the bounds of the amounts that match; 0 is none
}

// NewModel returns the model of an empty ledger.
func NewModel() *Model {
	return &Model{
		spends: make(map[string]*modelSpend), moves: make(map[string][]modelMove), levels: make(map[string]*level),
		own: make(map[string]own), frozen: make(map[string]string), figures: make(map[string]bool), told: make(map[string]int64), pruned: make(map[string]int64),
		gone: make(map[string]int64), unneeded: make(map[string]unneeded), last: make(map[string]int64), canceled: make(map[string]spend.Decision), known: make(map[string]known),
	}
}

// Rules returns the rules of an account, as a process has them.
type Rules func(account string) []Rule

// Rule returns the rule as budgets take it. Amounts are cents.
func (r Rule) Rule() spend.Rule {
	m := money(r.Limit)
	width := time.Duration(r.Width) * time.Microsecond
	var rule spend.Rule
	switch r.Kind {
	case "rolling":
		rule = spend.Rolling(r.Name, m, width)
	case "day":
		rule = spend.Calendar(r.Name, m, spend.Day, time.FixedZone("fixed", int(r.offset/1e6))).
			DayStarting(time.Duration(r.begins) * time.Microsecond)
	case "month":
		rule = spend.Calendar(r.Name, m, spend.Month, time.UTC)
	case "year":
		rule = spend.Calendar(r.Name, m, spend.Year, time.UTC)
	case "single":
		rule = spend.PerTransaction(r.Name, m)
	case "lifetime":
		rule = spend.Lifetime(r.Name, m)
	case "count":
		rule = spend.Count(r.Name, r.Limit, width)
	case "counted":
		rule = spend.CountPer(r.Name, r.Limit, spend.Day, time.FixedZone("fixed", int(r.offset/1e6)))
	case "leaky":
		rule = spend.Leaky(r.Name, m, width)
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
	if r.Credits {
		rule = rule.CountsCredits()
	}
	if r.declines {
		rule = rule.CountsDeclines()
	}
	if r.voids {
		rule = rule.CountsVoids()
	}
	if r.Shadow {
		rule = rule.Shadow()
	}
	return rule.AtMost(r.units(r.Most)).Thresholds(r.thresholds()...)
}

// units returns n units of the rule: money, or spends.
func (r Rule) units(n int64) spend.Money {
	if r.spends() {
		return spend.Money{Minor: n}
	}
	return money(n)
}

// spends reports whether the rule counts spends instead of money.
func (r Rule) spends() bool { return r.Kind == "count" || r.Kind == "counted" }

func (r Rule) matches(tags map[string]string, first int64) bool {
	if r.narrowed && tags["category"] != r.one || first < r.from || r.upTo > 0 && first > r.upTo {
		return false
	}
	return r.tag == "" || (tags[r.tag] == r.value) != r.not
}

// limit returns the limit of the rule in an account at t.
func (m *Model) limit(r Rule, account string, t int64) int64 {
	o := m.own[account+" "+r.Name]
	if t < o.until {
		return min(o.raised, r.Most)
	}
	return m.usual(r, account)
}

// usual returns the limit of the rule in an account that has no end.
func (m *Model) usual(r Rule, account string) int64 {
	if o := m.own[account+" "+r.Name]; o.set {
		return min(o.amount, r.Most)
	}
	return r.Limit
}

const dayLength = 24 * 3600 * 1e6

// in reports whether money dated at counts for the rule at t.
func (r Rule) in(at, t int64) bool {
	switch r.Kind {
	case "rolling", "count":
		return at > t-r.Width && at <= t
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
	return s.counts && (s.expires == 0 || s.first == 0 || s.captured() || s.alive(t) || s.willSpend(t))
}

// willSpend reports whether the hold expires by t and spends its money then.
func (s *modelSpend) willSpend(t int64) bool { return s.spends && !s.ended && s.expires <= t }

// expire lets the holds that spend their money and expire by t do so, in the order of their expiry.
func (m *Model) expire(rules Rules, t int64) {
	for _, id := range m.spending(t) {
		s := m.changing(id)
		for _, account := range s.accounts {
			for _, r := range m.counting(rules, account) {
				if l := m.levels[account+" "+r.Name]; l != nil && r.matches(s.tags, s.first) {
					next := l.poured(s.all(), s.expires)
					m.levels[account+" "+r.Name] = &next
				}
			}
		}
		for i := range s.parts {
			p := &s.parts[i]
			for _, account := range s.accounts {
				m.moveIn(account, modelMove{tags: s.tags, first: s.first, at: s.expires, date: p.at, used: p.held, expiry: true})
			}
			p.taken, p.held = p.taken+p.held, 0
		}
		s.spent = true
	}
}

// spending returns the holds that expire by t and then spend their money, in the order of their
// expiry.
func (m *Model) spending(t int64) (list []string) {
	for _, id := range m.order {
		if s := m.spends[id]; s.willSpend(t) && !s.spent {
			list = append(list, id)
		}
	}
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(m.spends[a].expires, m.spends[b].expires) })
	return list
}

// Clone returns a copy.
func (m *Model) Clone() *Model {
	c := *m
	c.spends, c.moves, c.levels, c.own, c.frozen = maps.Clone(m.spends), maps.Clone(m.moves), maps.Clone(m.levels), maps.Clone(m.own), maps.Clone(m.frozen)
	c.figures, c.told, c.pruned, c.gone = maps.Clone(m.figures), maps.Clone(m.told), maps.Clone(m.pruned), maps.Clone(m.gone)
	c.unneeded, c.last, c.canceled, c.known = maps.Clone(m.unneeded), maps.Clone(m.last), maps.Clone(m.canceled), maps.Clone(m.known)
	return &c
}

// Equal reports whether all answers of both models are the same from now on. It may report false
// for two that have carried out the same requests on an account in another order.
func (m *Model) Equal(o *Model) bool {
	if m == o {
		return true
	}
	same := func(x, y any) bool { return reflect.DeepEqual(x, y) }
	return maps.Equal(m.last, o.last) && slices.Equal(m.order, o.order) && maps.Equal(m.own, o.own) && maps.Equal(m.frozen, o.frozen) &&
		maps.Equal(m.figures, o.figures) && maps.Equal(m.told, o.told) && maps.Equal(m.known, o.known) &&
		maps.EqualFunc(m.spends, o.spends, func(x, y *modelSpend) bool { return x == y || same(x, y) }) &&
		same(m.moves, o.moves) && same(m.refused, o.refused) && same(m.levels, o.levels) &&
		maps.Equal(m.pruned, o.pruned) && maps.Equal(m.gone, o.gone) && maps.Equal(m.unneeded, o.unneeded) && same(m.canceled, o.canceled)
}

// rename gives a spend whose ID is free again another name.
func (m *Model) rename(id string) {
	other := id + " of old"
	for m.spends[other] != nil {
		other += " of old"
	}
	s := m.spends[id]
	m.order = slices.DeleteFunc(slices.Clone(m.order), func(x string) bool { return x == id })
	delete(m.spends, id)
	m.begin(other, s)
}

// changing returns a spend that may be changed: a copy, which is then that of the model.
func (m *Model) changing(id string) *modelSpend {
	s := *m.spends[id]
	s.parts = slices.Clone(s.parts)
	m.spends[id] = &s
	return &s
}

// usage returns the used and held amounts of a rule in an account at t, and the
// level of a leaky rule, if nothing more happens until then.
func (m *Model) usage(r Rule, account string, t int64) (used, held int64, level float64) {
	if r.Kind == "single" {
		return 0, 0, 0
	}
	for _, id := range m.order {
		s := m.spends[id]
		if !slices.Contains(s.accounts, account) || !r.matches(s.tags, s.first) {
			continue
		}
		if r.spends() {
			if r.voids && !s.unborn() && r.in(s.parts[0].at, t) || !r.voids && s.counting(t) && r.in(s.countAt, t) {
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
	case r.Kind == "leaky":
		level = m.leaked(r, account, t)
		used = int64(math.Ceil(level))
	case r.mayCredit():
		used = m.net(r, account, t)
	}
	return used, held, level
}

// rate returns the leak rate of a leaky rule in an account at t. A limit of zero does not stop the
// leak.
func (m *Model) rate(r Rule, account string, t int64) float64 {
	n := m.limit(r, account, t)
	if n == 0 {
		n = r.Limit
	}
	return float64(n) / (float64(r.Width) / 1e6)
}

func (m *Model) leaked(r Rule, account string, t int64) float64 {
	l := m.levels[account+" "+r.Name]
	if l == nil {
		return 0
	}
	now := *l
	for _, id := range m.spending(t) {
		s := m.spends[id]
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

// decided writes the levels of the leaky rules that decide about accounts at t. The time until then
// leaks at the rate of the last decision.
func (m *Model) decided(rules Rules, accounts []string, t int64) {
	for _, account := range accounts {
		judges := len(rules(account))
		for i, r := range m.counting(rules, account) {
			if r.Kind != "leaky" {
				continue
			}
			if i >= judges {
				l := m.levels[account+" "+r.Name].poured(0, t)
				m.levels[account+" "+r.Name] = &l
				continue
			}
			l := level{units: m.leaked(r, account, t), at: t, rate: m.rate(r, account, t)}
			if end := m.own[account+" "+r.Name].until; t < end {
				l.until, l.later = end, m.rate(r, account, end)
			}
			m.levels[account+" "+r.Name] = &l
		}
	}
}

// counts notes that rules have decided about accounts. The figures of a rule go that neither has
// decided nor goes on counting. If it comes back, it counts all spends and none of the credits.
func (m *Model) counts(rules Rules, accounts []string) {
	for _, account := range accounts {
		all := m.counting(rules, account)
		for key := range m.figures {
			name, of := strings.CutPrefix(key, account+" ")
			if of && !slices.ContainsFunc(all, func(r Rule) bool { return r.Name == name }) {
				delete(m.figures, key)
				delete(m.told, key)
				m.uncredit(name, account)
			}
		}
		for _, r := range rules(account) {
			m.figures[account+" "+r.Name] = true
		}
	}
}

// counting returns the rules that count in an account: those that judge it, and then those of other
// plans that go on counting.
func (m *Model) counting(rules Rules, account string) []Rule {
	list := rules(account)
	if m.Others == nil {
		return list
	}
	list = slices.Clip(list)
	for _, r := range m.Others(account) {
		if r.goesOn() && m.figures[account+" "+r.Name] && !slices.ContainsFunc(list, func(x Rule) bool { return x.Name == r.Name }) {
			list = append(list, r)
		}
	}
	return list
}

// goesOn reports whether the rule goes on counting in an account that has got another plan.
func (r Rule) goesOn() bool {
	return r.Kind != "rolling" && r.Kind != "count" && r.Kind != "single"
}

// uncredit lets a rule count none of the credits of an account so far.
func (m *Model) uncredit(rule, account string) {
	m.eachMove(account, func(v *modelMove) {
		if v.counted != nil {
			v.counted = maps.Clone(v.counted)
			delete(v.counted, rule)
		}
	})
}

// mend sets accounts to the time t that have all decided at top, under a clock that was ahead.
// Entries that are dated later count from t on, and holds that have expired stay so. Rules with a
// window count the spends anew. No spend counts against these accounts and others.
func (m *Model) mend(rules Rules, accounts []string, top, t int64) {
	for id, s := range m.spends {
		if !slices.Contains(accounts, s.accounts[0]) {
			continue
		}
		s = m.changing(id)
		s.countAt = min(s.countAt, t)
		for i := range s.parts {
			s.parts[i].at = min(s.parts[i].at, t)
		}
		if s.expires <= top {
			s.expires = min(s.expires, t)
		}
	}
	m.refused = slices.Clone(m.refused)
	for i := range m.refused {
		if x := &m.refused[i]; slices.Contains(accounts, x.account) {
			x.at = min(x.at, t)
		}
	}
	for _, account := range accounts {
		m.eachMove(account, func(v *modelMove) { v.at, v.date = min(v.at, t), min(v.date, t) })
		m.last[account] = t
		for _, r := range m.counting(rules, account) {
			if r.Kind == "day" {
				m.uncredit(r.Name, account)
			}
		}
	}
}

// asked does as decided for a question, which writes nothing, until the result is called.
func (m *Model) asked(rules Rules, accounts []string, t int64) (written func()) {
	before := m.levels
	m.levels = maps.Clone(before)
	m.decided(rules, accounts, t)
	return func() { m.levels = before }
}

// pour fills the leaky rules with money that is used now, or drains them if n is negative.
func (m *Model) pour(rules Rules, s *modelSpend, n int64) {
	for _, account := range s.accounts {
		for _, r := range m.counting(rules, account) {
			if r.matches(s.tags, s.first) {
				m.pourInto(r, account, n)
			}
		}
	}
}

func (m *Model) pourInto(r Rule, account string, n int64) {
	if r.Kind != "leaky" || n == 0 {
		return
	}
	l := *m.levels[account+" "+r.Name] // as the decision about the money has written it
	l.units = max(0, l.units+float64(n))
	m.levels[account+" "+r.Name] = &l
}

// overfills reports whether n more units at t are too many for the leaky bucket of a rule in one of
// the accounts.
func (m *Model) overfills(rules Rules, s *modelSpend, n, t int64) bool {
	for _, account := range s.accounts {
		for _, r := range rules(account) {
			used, held, _ := m.usage(r, account, t)
			if r.Kind == "leaky" && r.matches(s.tags, s.first) && n > most-used-held {
				return true
			}
		}
	}
	return false
}

// room returns the remaining amount of a rule: for a leaky one, the largest that fits.
func (m *Model) room(r Rule, account string, t int64) int64 {
	used, held, level := m.usage(r, account, t)
	if r.Kind == "leaky" {
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
func (m *Model) charge(rules Rules, id string, s *modelSpend, hold bool, n, t, date int64) {
	s.gross, s.counts, s.countAt = n, true, date
	p := modelPart{at: date}
	if hold {
		p.held = n
	} else {
		p.taken = n
	}
	s.parts = []modelPart{p}
	m.begin(id, s)
	if !hold {
		m.move(s, n, t, date)
		m.pour(rules, s, n)
	}
}

// begin adds a spend, in the place of one that was canceled before it began.
func (m *Model) begin(id string, s *modelSpend) {
	if at, begun := slices.BinarySearch(m.order, id); !begun {
		m.order = slices.Insert(slices.Clip(m.order), at, id)
	}
	m.spends[id] = s
	delete(m.canceled, id)
}

// capture carries out a capture that is legal or forced.
func (m *Model) capture(rules Rules, s *modelSpend, n, t int64, final bool) {
	if s.unborn() {
		s.first = n // the capture begins it
	}
	m.pour(rules, s, n)
	if !s.alive(t) {
		if !s.counting(t) {
			s.counts, s.countAt = true, t
		}
		for i := range s.parts {
			s.parts[i].held = 0
		}
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
func (m *Model) end(s *modelSpend) {
	for i := range s.parts {
		s.parts[i].held = 0
	}
	s.ended = true
	s.counts = s.captured()
}

// cancel takes back all that a spend holds and has taken.
func (m *Model) cancel(rules Rules, s *modelSpend, t int64) {
	m.refund(rules, s, s.refundable(), t)
	m.end(s)
	s.counts = false
}

// decrease releases n of the held money, the newest part first.
func (m *Model) decrease(s *modelSpend, n, t int64) {
	if n == s.held(t) {
		m.end(s)
		return
	}
	for i := len(s.parts) - 1; i >= 0; i-- {
		k := min(n, s.parts[i].held)
		s.parts[i].held, n = s.parts[i].held-k, n-k
	}
}

func (m *Model) refund(rules Rules, s *modelSpend, n, t int64) {
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

// reverse takes n of the refunded money again, the oldest part first.
func (m *Model) reverse(rules Rules, s *modelSpend, n, t int64) {
	m.pour(rules, s, n)
	for i := range s.parts {
		p := &s.parts[i]
		k := min(n, p.refunded)
		p.refunded, n = p.refunded-k, n-k
		m.move(s, k, t, p.at)
	}
}

func (s *modelSpend) refunded() (n int64) {
	for _, p := range s.parts {
		n += p.refunded
	}
	return n
}

func money(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }
