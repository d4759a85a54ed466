package spendtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// actions are the random requests, and how many of a hundred steps make them.
var actions = []struct {
	share int
	do    func(*sequence) error
}{
	{11, func(s *sequence) error { return s.charge("charge") }},
	{13, func(s *sequence) error { return s.charge("authorize") }},
	{4, func(s *sequence) error { return s.charge("record") }},
	{3, (*sequence).together},
	{5, (*sequence).upTo},
	{6, func(s *sequence) error { return s.hold((*sequence).increase) }},
	{4, func(s *sequence) error { return s.hold((*sequence).decrease) }},
	{3, func(s *sequence) error { return s.hold((*sequence).extend) }},
	{9, func(s *sequence) error { return s.hold((*sequence).capture) }},
	{5, func(s *sequence) error { return s.hold((*sequence).void) }},
	{5, (*sequence).refund},
	{3, (*sequence).reverse},
	{3, (*sequence).cancel},
	{5, (*sequence).credit},
	{2, (*sequence).freeze},
	{4, (*sequence).setLimit},
	{4, (*sequence).move},
	{4, (*sequence).again},
	{4, (*sequence).change},
	{3, (*sequence).setPlan},
}

// step makes one random request and checks its answer against the model.
func (s *sequence) step() error {
	s.budgets = s.programs[s.r.IntN(len(s.programs))]
	if s.keep > 0 && s.r.IntN(6) == 0 {
		s.model.expire(s.of, s.now())
		return s.prune()
	}
	n := s.r.IntN(100)
	for _, a := range actions {
		if n -= a.share; n < 0 {
			return a.do(s)
		}
	}
	panic("the shares are less than a hundred")
}

// try sends a request, with other scales of its money, and compares the answer with the model's.
func (s *sequence) try(r Request) (spend.Decision, error) {
	if r.ID == "" {
		r.ID = s.id()
	}
	scaled := r
	scaled.Amount = s.scaled(r.Amount)
	scaled.Limits = slices.Clone(r.Limits)
	for i := range scaled.Limits {
		scaled.Limits[i].Amount = s.scaled(r.Limits[i].Amount)
	}
	d, err := s.send(scaled)
	_, wrong := s.model.Decide(s.of, r, s.clock.now(), &Answer{d, err})
	return d, wrong
}

// ttl returns a time in which holds expire, or limits end.
func (s *sequence) ttl() time.Duration {
	return time.Duration(tick*(1+s.r.Int64N(64*40))) * time.Microsecond
}

// shared sometimes adds the other account to a payment.
func (s *sequence) shared(r *Request) {
	if s.r.IntN(4) > 0 {
		return
	}
	other := s.accounts[0]
	if other == r.Account {
		other = s.accounts[1]
	}
	r.Also = []spend.Account{{Budget: s.name, Name: other}}
}

// held gives a payment a time to live as a hold.
func (s *sequence) held(r *Request) { r.TTL, r.OnExpiry = s.ttl(), spend.Expiry(s.r.IntN(4))%3 }

// nothing makes some authorizations ask for nothing.
func (s *sequence) nothing(r *Request) {
	if s.r.IntN(8) == 0 {
		r.Amount = money(0)
	}
}

// account returns one of the accounts.
func (s *sequence) account() string { return s.accounts[s.r.IntN(len(s.accounts))] }

func (s *sequence) amount() int64 {
	if s.r.IntN(3) == 0 { // an exact fit for one of the rules
		account := s.accounts[0]
		r := s.of(account)[s.r.IntN(len(s.of(account)))]
		if room := s.model.room(r, account, s.now()); room > 0 && r.Kind != "count" {
			return room
		}
	}
	return 1 + s.r.Int64N(40)
}

// part returns an amount, in some cases one within n.
func (s *sequence) part(n int64) int64 {
	if n > 0 && s.r.IntN(2) == 0 {
		return 1 + s.r.Int64N(n)
	}
	return 1 + s.r.Int64N(40)
}

// scaled returns the amount, or the same with another scale.
func (s *sequence) scaled(m spend.Money) spend.Money {
	if s.r.IntN(3) > 0 || m.Minor == most || m.Currency == "" { // too large for a finer unit, or no amount
		return m
	}
	same, err := m.In([]string{"EUR:3", "EUR:9"}[s.r.IntN(2)])
	if err != nil {
		s.t.Error(err)
		return m
	}
	return same
}

func (s *sequence) charge(method string) error {
	r := s.payment(method, s.account(), s.amount())
	s.shared(&r)
	now := s.now()
	if method == "authorize" {
		s.held(&r)
		s.nothing(&r)
		r.Force = s.r.IntN(6) == 0
	}
	if (method == "record" || r.Force) && s.r.IntN(2) == 0 {
		r.Dated = time.UnixMicro(now - tick*s.r.Int64N(64*100))
	}
	if method == "record" && s.r.IntN(8) == 0 {
		sp := &modelSpend{accounts: r.accounts(), tags: r.Tags, first: most}
		if s.model.expire(s.of, now); s.model.overfills(s.of, sp, most, now) {
			r.Amount = money(most)
		}
	}
	if r.Amount.Minor > 0 && (!s.h.CompareRarely || s.r.IntN(8) == 0) {
		if err := s.able(r); err != nil {
			return fmt.Errorf("AbleToAccept: %w", err)
		}
	}
	_, err := s.try(r)
	return err
}

// able asks about a request.
func (s *sequence) able(r Request) error {
	asked := r
	asked.Method, asked.Amount = "able", s.scaled(r.Amount)
	d, err := s.byName(asked, s.budgets)
	if err != nil {
		return err
	}
	return s.model.able(s.of, r, s.now(), d)
}

// together sends a few charges or authorizations together, some of them on one account.
func (s *sequence) together() error {
	var requests []Request
	var all []spend.Request
	method, send := "charge", s.budgets.ChargeAll
	hold := s.r.IntN(2) == 0
	if hold {
		method, send = "authorize", s.budgets.AuthorizeAll
	}
	for range 1 + s.r.IntN(4) {
		r := s.payment(method, s.account(), s.amount())
		if hold {
			s.held(&r)
			s.nothing(&r)
		}
		requests = append(requests, r)
		r.Amount = s.scaled(r.Amount)
		all = append(all, s.named(r).money())
	}
	for i, a := range send(ctx, all) {
		r := requests[i]
		s.first(&a.Decision)
		s.tell("together %+v: %t %v", r, a.Decision.Approved, a.Err)
		if _, err := s.model.Decide(s.of, r, s.clock.now(), &Answer{a.Decision, a.Err}); err != nil {
			return fmt.Errorf("%s, sent together with others: %w", r.ID, err)
		}
		s.sent = append(s.sent, sent{r, a.Decision})
	}
	return nil
}

// upTo asks for the largest amount that fits.
func (s *sequence) upTo() error {
	r := s.payment("upTo", s.account(), s.amount()+s.r.Int64N(60))
	r.Least = money(1 + s.r.Int64N(min(30, r.Amount.Minor)))
	if r.Hold = s.r.IntN(2) == 0; r.Hold {
		s.held(&r)
	}
	_, err := s.try(r)
	return err
}

// credit notes money that comes in.
func (s *sequence) credit() error {
	r := s.payment("credit", s.account(), 1+s.r.Int64N(60))
	s.shared(&r)
	if _, err := s.try(r); err != nil {
		return err
	}
	for e, err := range s.budgets.History(ctx, s.anyName(r.Account), &spend.HistoryOptions{Limit: 1}) {
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		if want := s.model.counted(r.Account); !maps.Equal(e.Credited, want) {
			return fmt.Errorf("the rules have counted %v of the credit; want %v", e.Credited, want)
		}
	}
	return nil
}

// mostly returns an earlier spend: one that is wanted, in three of four draws and if there is one.
func (s *sequence) mostly(wanted func(*modelSpend) bool) (string, *modelSpend) {
	if len(s.model.order) == 0 {
		return "", nil
	}
	ids := s.model.order
	if s.r.IntN(4) > 0 {
		ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !wanted(s.model.spends[id]) })
		if len(ids) == 0 {
			ids = s.model.order
		}
	}
	id := ids[s.r.IntN(len(ids))]
	return id, s.model.spends[id]
}

// hold makes a request about an earlier spend, mostly one with an open hold.
func (s *sequence) hold(f func(s *sequence, of string, held int64) Request) error {
	now := s.now()
	of, sp := s.mostly(func(sp *modelSpend) bool { return sp.alive(now) })
	if sp == nil {
		return nil
	}
	r := f(s, of, sp.held(now))
	r.Of = of
	_, err := s.try(r)
	return err
}

func (s *sequence) increase(string, int64) Request {
	n := s.amount()
	r := Request{Method: "increase", Amount: money(n)}
	if s.r.IntN(3) == 0 {
		r.Least = money(1 + s.r.Int64N(n))
	}
	return r
}

func (s *sequence) decrease(_ string, held int64) Request {
	return Request{Method: "decrease", Amount: money(s.part(held))}
}

func (s *sequence) extend(string, int64) Request {
	return Request{Method: "extend", TTL: s.ttl(), OnExpiry: spend.Expiry(s.r.IntN(3))}
}

func (s *sequence) void(string, int64) Request { return Request{Method: "void"} }

func (s *sequence) capture(of string, held int64) Request {
	r := Request{Method: "capture", Amount: money(s.part(held)), Final: s.r.IntN(2) == 0, Force: s.r.IntN(3) == 0}
	switch {
	case r.Final && s.r.IntN(8) == 0:
		r.Amount = money(0)
	case r.Force && s.r.IntN(8) == 0:
		if s.model.expire(s.of, s.now()); s.model.overfills(s.of, s.model.spends[of], most-held, s.now()) {
			r.Amount = money(most)
		}
	}
	return r
}

func (s *sequence) refund() error {
	of, sp := s.mostly((*modelSpend).captured)
	if sp == nil {
		return nil
	}
	left := sp.refundable()
	n := s.part(left)
	if s.r.IntN(4) == 0 {
		n = left + 1 // one unit too many
	}
	_, err := s.try(Request{Method: "refund", Of: of, Amount: money(n), Force: s.r.IntN(3) == 0})
	return err
}

// reverse takes back refunds of a spend, if it has some.
func (s *sequence) reverse() error {
	of, sp := s.mostly(func(sp *modelSpend) bool { return sp.refunded() > 0 })
	if sp == nil {
		return nil
	}
	left := sp.refunded()
	n := s.part(left)
	switch s.r.IntN(4) {
	case 0:
		n = left + 1 // one unit too many
	case 1:
		n = max(left, 1)
	}
	_, err := s.try(Request{Method: "reverse", Of: of, Amount: money(n)})
	return err
}

// cancel cancels a spend, a request of another kind, or an ID that was never sent.
func (s *sequence) cancel() error {
	r := Request{Method: "cancel", ID: s.id(), Account: s.account()}
	switch s.r.IntN(4) {
	case 0:
	case 1:
		if len(s.sent) > 0 {
			r.ID = s.sent[s.r.IntN(len(s.sent))].request.ID
		}
	default:
		open := func(sp *modelSpend) bool { return sp.alive(s.now()) || sp.refundable() > 0 }
		if id, sp := s.mostly(open); sp != nil {
			r.ID, r.Account = id, sp.accounts[0]
		}
	}
	if k, ok := s.model.known[r.ID]; ok {
		r.Account = k.account
	}
	if first, again := s.model.canceled[r.ID]; again {
		d, err := s.byName(r, s.budgets)
		if want := first; err != nil || !d.At.Equal(want.At) || !d.Replayed || !d.Canceled || d.Amount.Minor != want.Amount.Minor {
			return fmt.Errorf("a second cancel: %+v, %w; want %+v", d, err, want)
		}
		return nil
	}
	if _, ok := s.model.known[r.ID]; ok && s.r.IntN(8) == 0 {
		r.Account = "other"
	}
	_, known := s.model.known[r.ID]
	d, err := s.try(r)
	for i := range s.sent {
		if x := &s.sent[i]; err == nil && d.Canceled && x.request.ID == r.ID && x.request.Method != "cancel" {
			declines := x.first.Declines
			x.first = d
			x.first.Approved, x.first.Amount, x.first.Declines, x.first.RetryAfter = false, spend.Money{}, declines, store.Never
			if wrong := s.resend(*x); wrong != nil {
				return wrong
			}
		}
	}
	if err == nil && !known && s.r.IntN(2) == 0 {
		return s.moved(r.ID, r.Account)
	}
	return err
}

// moved tells of money that has moved under an ID that was canceled before its request came.
func (s *sequence) moved(id, account string) error {
	if s.r.IntN(2) == 0 {
		_, err := s.try(Request{Method: "capture", Of: id, Amount: money(s.amount()), Force: true})
		return err
	}
	r := s.payment([]string{"record", "authorize"}[s.r.IntN(2)], account, s.amount())
	if r.ID = id; r.Method == "authorize" {
		s.held(&r)
		r.Force = true
	}
	s.sent = slices.DeleteFunc(s.sent, func(x sent) bool { return x.request.ID == id })
	_, err := s.try(r)
	return err
}
