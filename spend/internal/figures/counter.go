package figures

import "github.com/brimgo/brim/spend/ledger"

// counter tells which units an entry adds to a rule of an account.
type counter struct {
	Name        string
	Rule        *Rule  // nil if the process has no such rule
	fingerprint uint64 // of the rule that counted
	reach       int64  // how far back the rule needs entries
	begun       int64  // number of the last entry when the account got the rule; no credit of these entries counts
}

// New returns the tally of a rule, with its fingerprint, that an account has not counted yet.
func New(r *Rule, fingerprint uint64) *Tally {
	return &Tally{counter: counter{Name: r.Name, Rule: r, fingerprint: fingerprint, reach: r.Reach()}}
}

// Is reports whether the tally has the figures of a rule.
func (c *counter) Is(r *Rule, fingerprint uint64) bool {
	return c.Name == r.Name && c.fingerprint == fingerprint
}

// Use gives the tally its rule.
func (c *counter) Use(r *Rule) { c.Rule, c.reach = r, r.Reach() }

// Windowed reports whether entries leave the rule as time passes.
func (c *counter) Windowed() bool { return c.reach > 0 && c.reach < MaxTime }

// Needs returns how far back the rule needs entries at a time. A rule without a window needs none.
func (c *counter) Needs(now int64) (date int64, ok bool) { return now - c.reach, c.Windowed() }

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

// credited returns the part of a credit that the rule has counted.
func (c *counter) credited(e *ledger.Entry) int64 {
	for i := range e.Credited {
		if part := &e.Credited[i]; part.Counts == c.fingerprint && part.Rule == c.Name {
			return part.Amount
		}
	}
	return 0
}
