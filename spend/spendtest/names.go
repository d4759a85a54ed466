package spendtest

import (
	"maps"
	"slices"

	"github.com/brimgo/brim/spend"
)

// former is a name that an account had, and the time at which the account has moved.
type former struct {
	account string // its first name
	at      int64
}

// moveTo are the names that accounts move to.
var moveTo = []string{"a", "b", "c", "d"}

// move gives an account another name.
func (s *sequence) move() error {
	account, to := s.account(), moveTo[s.r.IntN(len(moveTo))]
	r := Request{Method: "move", ID: s.id(), Account: account, To: to, Reason: "replaced"}
	if other := s.owner(to); other == account || other != "" && s.model.last[other] == 0 { // the other one is not there yet
		return nil
	}
	if f, had := s.formers[to]; s.owner(to) != "" || had && f.account != account { // it is that of another
		_, err := s.send(r)
		return refuses(err, spend.ErrRequest)
	}
	names, formers, was := maps.Clone(s.names), maps.Clone(s.formers), s.names[account]
	s.names[account], s.formers[was] = to, former{account, s.now()}
	d, err := s.try(r)
	if d.Approved {
		s.formers[was] = former{account, d.At.UnixMicro()}
	} else {
		s.names, s.formers = names, formers
	}
	return err
}

// anyName returns a name of an account: its present one, or one that it had, but not that which is
// out.
func (s *sequence) anyName(account string, out ...string) string {
	present, moves := s.names[account]
	if !moves {
		return account
	}
	names := []string{present}
	for _, name := range slices.Sorted(maps.Keys(s.formers)) {
		if s.formers[name].account == account && s.owner(name) == "" {
			names = append(names, name)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(out, name) })
	return names[s.r.IntN(len(names))]
}

// owner returns the account that has a name now, or nothing.
func (s *sequence) owner(name string) string {
	for _, account := range s.accounts {
		if s.names[account] == name {
			return account
		}
	}
	return ""
}

// byName sends a request with names of its accounts, and returns the answer by their first names.
func (s *sequence) byName(r Request, b *spend.Budgets) (spend.Decision, error) {
	d, err := s.named(r).Send(ctx, b)
	s.first(&d)
	return d, err
}

// named returns a request with names of its accounts.
func (s *sequence) named(r Request) Request {
	r.Account = s.anyName(r.Account, r.To)
	r.Also = slices.Clone(r.Also)
	for i := range r.Also {
		r.Also[i].Name = s.anyName(r.Also[i].Name)
	}
	return r
}

// first gives the accounts of an answer, which must have their present names, their first ones.
func (s *sequence) first(d *spend.Decision) {
	for i := range d.Remaining {
		s.firstName(&d.Remaining[i].Account)
	}
	for i := range d.Shadow {
		s.firstName(&d.Shadow[i].Account)
	}
	for i := range d.Declines {
		s.firstName(&d.Declines[i].Account)
	}
	for i := range d.Crossed {
		s.firstName(&d.Crossed[i].Account)
	}
}

func (s *sequence) firstName(a *spend.Account) {
	if account := s.owner(a.Name); account != "" {
		a.Name = account
	} else {
		a.Name = "none has the name " + a.Name
	}
}

// pruneNames forgets the names of accounts that have moved before KeepIDs, and returns their
// number.
func (s *sequence) pruneNames(now int64) (n int64) {
	for name, f := range s.formers {
		if f.at < now-s.keep {
			delete(s.formers, name)
			n++
		}
	}
	return n
}
