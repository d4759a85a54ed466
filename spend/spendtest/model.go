package spendtest

import (
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
	spends map[string]*modelSpend
	order  []string
	levels map[string]*level // of Leaky rules, by account and rule
}

type modelSpend struct {
	accounts []string
	tags     map[string]string
	parts    []modelPart
	expires  int64 // 0 for one that was never held
	ended    bool
	gross    int64
	countAt  int64 // date at which it counts as a spend
	counts   bool  // as a spend, unless it has expired with nothing captured
}

type modelPart struct{ at, held, taken, refunded int64 }

type level struct {
	units float64
	at    int64
}

// modelRule is a rule of the model.
type modelRule struct {
	kind   string // rolling, day, single, lifetime, count, leaky
	name   string
	limit  int64
	width  int64 // the window of rolling and count; the period of leaky
	offset int64 // of the zone from UTC, for day
	tag    string
	value  string
}

func newModel() *model {
	return &model{spends: make(map[string]*modelSpend), levels: make(map[string]*level)}
}

func (r modelRule) rule() spend.Rule {
	m := money(r.limit)
	width := time.Duration(r.width) * time.Microsecond
	var rule spend.Rule
	switch r.kind {
	case "rolling":
		rule = spend.Rolling(r.name, m, width)
	case "day":
		rule = spend.Calendar(r.name, m, spend.Day, time.FixedZone("fixed", int(r.offset/1e6)))
	case "single":
		rule = spend.PerTransaction(r.name, m)
	case "lifetime":
		rule = spend.Lifetime(r.name, m)
	case "count":
		rule = spend.Count(r.name, r.limit, width)
	case "leaky":
		rule = spend.Leaky(r.name, m, width)
	}
	if r.tag != "" {
		rule = rule.Matching(r.tag, r.value)
	}
	return rule
}

func (r modelRule) matches(tags map[string]string) bool { return r.tag == "" || tags[r.tag] == r.value }

const dayLength = 24 * 3600 * 1e6

// in reports whether money dated at counts for the rule at t.
func (r modelRule) in(at, t int64) bool {
	switch r.kind {
	case "rolling", "count":
		return at > t-r.width && at <= t
	case "day":
		return (at+r.offset)/dayLength == (t+r.offset)/dayLength
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
	return s.counts && (s.expires == 0 || s.captured() || s.alive(t))
}

// usage returns the used and held amounts of a rule in an account at t, and the
// level of a leaky rule, if nothing more happens until then.
func (m *model) usage(r modelRule, account string, t int64) (used, held int64, level float64) {
	if r.kind == "single" {
		return 0, 0, 0
	}
	for _, id := range m.order {
		s := m.spends[id]
		if !slices.Contains(s.accounts, account) || !r.matches(s.tags) {
			continue
		}
		if r.kind == "count" {
			if s.counting(t) && r.in(s.countAt, t) {
				used++
			}
			continue
		}
		for _, p := range s.parts {
			if !r.in(p.at, t) {
				continue
			}
			used += p.taken - p.refunded
			if s.alive(t) {
				held += p.held
			}
		}
	}
	if r.kind == "leaky" {
		level = m.leaked(r, account, t)
		used = int64(math.Ceil(level))
	}
	return used, held, level
}

func (r modelRule) rate() float64 { return float64(r.limit) / (float64(r.width) / 1e6) }

func (m *model) leaked(r modelRule, account string, t int64) float64 {
	l := m.levels[account+" "+r.name]
	if l == nil {
		return 0
	}
	return max(0, l.units-r.rate()*(float64(t-l.at)/1e6))
}

// pour fills the leaky rules with money used at t, or drains them if n is
// negative.
func (m *model) pour(rules []modelRule, s *modelSpend, n, t int64) {
	for _, account := range s.accounts {
		for _, r := range rules {
			if r.kind == "leaky" && r.matches(s.tags) {
				m.levels[account+" "+r.name] = &level{max(0, m.leaked(r, account, t)+float64(n)), t}
			}
		}
	}
}

// room returns the remaining amount of a rule, rounded down.
func (m *model) room(r modelRule, account string, t int64) int64 {
	used, held, level := m.usage(r, account, t)
	if r.kind == "leaky" {
		return int64(math.Floor(float64(r.limit) - level - float64(held)))
	}
	return r.limit - used - held
}

// fits reports whether a rule agrees at t to n more units of a spend, which then
// amounts to total, and to so many more spends.
func (m *model) fits(r modelRule, account string, t, n, total, spends int64, tags map[string]string) bool {
	if !r.matches(tags) {
		return true
	}
	used, held, level := m.usage(r, account, t)
	switch r.kind {
	case "single":
		return total <= r.limit
	case "count":
		return used+spends <= r.limit
	case "leaky":
		return level+float64(held)+float64(n) <= float64(r.limit)
	}
	return used+held+n <= r.limit
}

// charge adds a spend, a hold or a record.
func (m *model) charge(rules []modelRule, id string, s *modelSpend, hold bool, n, t int64) {
	s.gross, s.counts, s.countAt = n, true, t
	p := modelPart{at: t}
	if hold {
		p.held = n
	} else {
		p.taken = n
	}
	s.parts = []modelPart{p}
	m.spends[id] = s
	m.order = append(m.order, id)
	if !hold {
		m.pour(rules, s, n, t)
	}
}

// capture carries out a capture that is legal or forced.
func (m *model) capture(rules []modelRule, s *modelSpend, n, t int64, final bool) {
	m.pour(rules, s, n, t)
	if !s.alive(t) {
		if !s.counting(t) {
			s.counts, s.countAt = true, t
		}
		for i := range s.parts {
			s.parts[i].held = 0
		}
		s.ended = true
		s.parts = append(s.parts, modelPart{at: t, taken: n})
		return
	}
	for i := range s.parts {
		p := &s.parts[i]
		k := min(n, p.held)
		p.held, p.taken, n = p.held-k, p.taken+k, n-k
	}
	if n > 0 {
		s.parts = append(s.parts, modelPart{at: t, taken: n})
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

func (m *model) refund(rules []modelRule, s *modelSpend, n, t int64) {
	m.pour(rules, s, -n, t)
	for i := len(s.parts) - 1; i >= 0; i-- {
		p := &s.parts[i]
		k := min(n, p.taken-p.refunded)
		p.refunded, n = p.refunded+k, n-k
	}
}

func (s *modelSpend) refundable() (n int64) {
	for _, p := range s.parts {
		n += p.taken - p.refunded
	}
	return n
}

func money(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }
