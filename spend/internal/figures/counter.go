package figures

import "github.com/brimgo/brim/spend/ledger"

// counter tells which units an entry adds to a rule of an account.
type counter struct {
	Name        string
	Rule        *Rule
	fingerprint uint64 // of the rule that counted
	begun       int64  // number of the last entry when the account got the rule; no credit of these entries counts
}

// New returns the tally of a rule, with its fingerprint, that an account has not counted yet.
func New(r *Rule, fingerprint uint64) *Tally {
	u := &Tally{counter: counter{Name: r.Name, Rule: r, fingerprint: fingerprint}}
	if r.based() {
		u.ground = new(ground)
	}
	return u
}

// Is reports whether the tally has the figures of a rule.
func (c *counter) Is(r *Rule, fingerprint uint64) bool {
	return c.Name == r.Name && c.fingerprint == fingerprint
}

// Fingerprint returns that of the rule.
func (c *counter) Fingerprint() uint64 { return c.fingerprint }

// units returns the units that the entry adds to the rule at now.
func (c *counter) units(e *ledger.Entry, now int64) units {
	n := units{e.Used, e.Held, e.Expires, e.Spends}
	if c.Rule.Spends() {
		n.used, n.held = c.Rule.countOf(e)
	} else if e.Seq > c.begun {
		n.used -= c.credited(e)
	}
	if e.Expires <= now || e.Kind == KindExpire && e.Expires <= e.At { // a later end, which Prune has added
		if e.Spends {
			n.used += n.held
		}
		n.held = 0
	}
	return n
}

// Adds returns the used and the held units that an entry adds to a rule at a time, if the rule
// counts it.
func (r *Rule) Adds(e *ledger.Entry, now int64) (used, held int64) {
	if !r.Matches(e.Tags, e.SpendAmount) {
		return 0, 0
	}
	c := counter{Name: r.Name, Rule: r, fingerprint: r.Fingerprint()}
	n := c.units(e, now)
	return n.used, n.held
}

// Edge returns the date after which the rule counts entries at a time. Of a Leaky rule, a
// part of the entries after that date may not have leaked.
func (r *Rule) Edge(now int64) int64 {
	if r.Span() == Leaks {
		return now - r.Length.Microseconds()
	}
	return r.edge(now)
}

// credited returns the part of a credit that the rule has counted.
func (c *counter) credited(e *ledger.Entry) int64 {
	for i := range e.Credited {
		if part := &e.Credited[i]; part.Counts == c.fingerprint && part.Rule == c.Name {
			return part.Amount
		}
	}
	return 0
}
