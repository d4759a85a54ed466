package spendtest

import (
	"math"
	"slices"
	"time"

	"github.com/brimgo/brim/spend"
)

// model is what a budget's accounts must answer, computed the plain way: it keeps every spend and adds all of them up for
// each question. It shares no code with package spend.
//
// Times are microseconds. Leaky rules have rates, and all times, that doubles hold exactly.
type model struct {
	spends map[string]*mspend
	order  []string
	levels map[string]*level // of Leaky rules, by account and rule
}

type mspend struct {
	accounts []string
	tags     map[string]string
	parts    []mpart
	expires  int64 // 0 for one that was never held
	ended    bool
	gross    int64
	countAt  int64 // the date at which it counts as a spend
	counts   bool  // unless it has expired with nothing captured
}

type mpart struct{ at, held, taken, refunded int64 }

type level struct {
	units float64
	at    int64
}

// mrule is a rule as the model knows it.
type mrule struct {
	kind   string // rolling, day, single, lifetime, count, leaky
	name   string
	limit  int64
	width  int64 // rolling, count; of a leaky one the period
	offset int64 // day: of the zone from UTC
	tag    string
	value  string
}

func newModel() *model {
	return &model{spends: make(map[string]*mspend), levels: make(map[string]*level)}
}

func (r mrule) rule() spend.Rule {
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

func (r mrule) matches(tags map[string]string) bool { return r.tag == "" || tags[r.tag] == r.value }

const dayLength = 24 * 3600 * 1e6

// in reports whether what is dated at counts for the rule at t.
func (r mrule) in(at, t int64) bool {
	switch r.kind {
	case "rolling", "count":
		return at > t-r.width && at <= t
	case "day":
		return (at+r.offset)/dayLength == (t+r.offset)/dayLength
	}
	return true
}

// alive reports whether something may still be held at t.
func (s *mspend) alive(t int64) bool { return s.expires > t && !s.ended }

func (s *mspend) captured() bool {
	return slices.ContainsFunc(s.parts, func(p mpart) bool { return p.taken > 0 })
}

func (s *mspend) held(t int64) (n int64) {
	if s.alive(t) {
		for _, p := range s.parts {
			n += p.held
		}
	}
	return n
}

func (s *mspend) counting(t int64) bool {
	return s.counts && (s.expires == 0 || s.captured() || s.alive(t))
}

// usage is what a rule of an account has used and held at t, if nothing more happened until then.
func (m *model) usage(r mrule, account string, t int64) (used, held int64, level float64) {
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

func (r mrule) rate() float64 { return float64(r.limit) / (float64(r.width) / 1e6) }

func (m *model) leaked(r mrule, account string, t int64) float64 {
	l := m.levels[account+" "+r.name]
	if l == nil {
		return 0
	}
	return max(0, l.units-r.rate()*(float64(t-l.at)/1e6))
}

// pour notes that money was used (or given back) at t, for the rules that leak.
func (m *model) pour(rules []mrule, s *mspend, n, t int64) {
	for _, account := range s.accounts {
		for _, r := range rules {
			if r.kind == "leaky" && r.matches(s.tags) {
				m.levels[account+" "+r.name] = &level{max(0, m.leaked(r, account, t)+float64(n)), t}
			}
		}
	}
}

// room is what is left of a rule, as it is shown.
func (m *model) room(r mrule, account string, t int64) int64 {
	used, held, level := m.usage(r, account, t)
	if r.kind == "leaky" {
		return int64(math.Floor(float64(r.limit) - level - float64(held)))
	}
	return r.limit - used - held
}

// fits reports whether a rule agrees at t: to n more of a spend that then has total, and that adds so many to their number.
func (m *model) fits(r mrule, account string, t, n, total, spends int64, tags map[string]string) bool {
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

// charge notes a spend, a hold or a record.
func (m *model) charge(rules []mrule, id string, s *mspend, hold bool, n, t int64) {
	s.gross, s.counts, s.countAt = n, true, t
	p := mpart{at: t}
	if hold {
		p.held = n
	} else {
		p.taken = n
	}
	s.parts = []mpart{p}
	m.spends[id] = s
	m.order = append(m.order, id)
	if !hold {
		m.pour(rules, s, n, t)
	}
}

// capture notes a capture that is legal, or forced.
func (m *model) capture(rules []mrule, s *mspend, n, t int64, final bool) {
	m.pour(rules, s, n, t)
	if !s.alive(t) {
		if !s.counting(t) {
			s.counts, s.countAt = true, t
		}
		for i := range s.parts {
			s.parts[i].held = 0
		}
		s.ended = true
		s.parts = append(s.parts, mpart{at: t, taken: n})
		return
	}
	for i := range s.parts {
		p := &s.parts[i]
		k := min(n, p.held)
		p.held, p.taken, n = p.held-k, p.taken+k, n-k
	}
	if n > 0 {
		s.parts = append(s.parts, mpart{at: t, taken: n})
		s.gross += n
	}
	if final || s.held(t) == 0 {
		m.end(s)
	}
}

// end releases what is held.
func (m *model) end(s *mspend) {
	for i := range s.parts {
		s.parts[i].held = 0
	}
	s.ended = true
	s.counts = s.captured()
}

func (m *model) refund(rules []mrule, s *mspend, n, t int64) {
	m.pour(rules, s, -n, t)
	for i := len(s.parts) - 1; i >= 0; i-- {
		p := &s.parts[i]
		k := min(n, p.taken-p.refunded)
		p.refunded, n = p.refunded+k, n-k
	}
}

func (s *mspend) refundable() (n int64) {
	for _, p := range s.parts {
		n += p.taken - p.refunded
	}
	return n
}

func money(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }
