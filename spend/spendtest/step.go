package spendtest

import (
	"cmp"
	"errors"
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
	{15, func(s *sequence) error { return s.charge("charge") }},
	{16, func(s *sequence) error { return s.charge("authorize") }},
	{4, func(s *sequence) error { return s.charge("record") }},
	{3, (*sequence).together},
	{5, (*sequence).upTo},
	{6, func(s *sequence) error { return s.hold((*sequence).increase) }},
	{4, func(s *sequence) error { return s.hold((*sequence).decrease) }},
	{3, func(s *sequence) error { return s.hold((*sequence).extend) }},
	{9, func(s *sequence) error { return s.hold((*sequence).capture) }},
	{5, func(s *sequence) error { return s.hold((*sequence).void) }},
	{5, (*sequence).refund},
	{3, (*sequence).cancel},
	{5, (*sequence).credit},
	{2, (*sequence).freeze},
	{4, (*sequence).setLimit},
	{4, (*sequence).again},
	{4, (*sequence).change},
	{3, (*sequence).forget},
}

// step makes one random request and checks its answer against the model.
func (s *sequence) step() error {
	s.model.expire(s.rules, s.now())
	if s.keep > 0 && s.r.IntN(6) == 0 {
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

// try sends a request. It must fail with want if there is such an error; else its decision must be
// as then wants it.
func (s *sequence) try(r request, want error, then func(d spend.Decision) error) error {
	if r.id == "" {
		r.id = s.id()
	}
	r.amount = s.scaled(r.amount)
	d, err := s.send(r)
	if bad := refuses(err, want); bad != nil || want != nil {
		return bad
	}
	return cmp.Or(then(d), s.crossed(d))
}

// ttl returns a time in which holds expire, or limits end.
func (s *sequence) ttl() time.Duration {
	return time.Duration(tick*(1+s.r.Int64N(64*40))) * time.Microsecond
}

// pays returns a request for n units of an account, and its spend in the model.
func (s *sequence) pays(method string, n int64) (request, *modelSpend) {
	r := s.payment(method, s.account(), n)
	return r, &modelSpend{accounts: []string{r.account}, tags: r.tags, first: n}
}

// shared sometimes adds the other account to a payment.
func (s *sequence) shared(r *request, sp *modelSpend) {
	if s.r.IntN(4) > 0 {
		return
	}
	other := s.accounts[0]
	if other == r.account {
		other = s.accounts[1]
	}
	r.also = []spend.Account{{Budget: s.name, Name: other}}
	sp.accounts = append(sp.accounts, other)
}

// held gives a payment a time to live as a hold.
func (s *sequence) held(r *request, sp *modelSpend) {
	r.ttl = s.ttl()
	sp.expires = s.now() + r.ttl.Microseconds()
	r.expiry = spend.Expiry(s.r.IntN(4)) % 3
	sp.spends = r.expiry == spend.SpendOnExpiry
}

// account returns one of the accounts.
func (s *sequence) account() string { return s.accounts[s.r.IntN(len(s.accounts))] }

func (s *sequence) amount() int64 {
	if s.r.IntN(3) == 0 { // an exact fit for one of the rules
		r, account := s.rules[s.r.IntN(len(s.rules))], s.accounts[0]
		if room := s.model.room(r, account, s.now()); room > 0 && r.kind != "count" {
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
	r, sp := s.pays(method, s.amount())
	s.shared(&r, sp)
	now := s.now()
	at := now
	switch method {
	case "authorize":
		s.held(&r, sp)
		r.force = s.r.IntN(6) == 0
	}
	if (method == "record" || r.force) && s.r.IntN(2) == 0 {
		at -= tick * s.r.Int64N(64*100)
		r.dated = time.UnixMicro(at)
	}
	if method == "record" {
		if trial := *sp; s.r.IntN(8) == 0 {
			if trial.first = most; s.model.overfills(s.rules, &trial, most, now) {
				*sp, r.amount = trial, money(most)
			}
		}
	}
	n := r.amount.Minor
	if !s.h.CompareRarely || s.r.IntN(8) == 0 {
		able := r
		able.method, able.amount = "able", s.scaled(r.amount)
		asked, err := able.send(s.budgets)
		if err != nil {
			return fmt.Errorf("AbleToAccept: %w", err)
		}
		written := s.model.asked(s.rules, sp.accounts, now)
		if err := s.judge(asked, sp, n, n, 1, false); err != nil || asked.Crossed != nil {
			return fmt.Errorf("AbleToAccept: %+v, %w", asked, err)
		}
		written()
	}
	var want error
	if method == "record" && s.model.overfills(s.rules, sp, n, now) {
		want = spend.ErrAmount
	}
	err := s.try(r, want, func(d spend.Decision) error {
		if method != "record" && !r.force {
			if err := s.judge(d, sp, n, n, 1, true); err != nil || !d.Approved {
				return err
			}
		}
		s.model.charge(s.rules, r.id, sp, method == "authorize", n, now, at)
		return approved(d)
	})
	if !r.dated.IsZero() && s.model.mayBeGone(sp.accounts, at) && errors.Is(err, spend.ErrRequest) {
		return nil
	}
	return err
}

// approved wants an approval of a request that no rule refuses.
func approved(d spend.Decision) error {
	if !d.Approved {
		return fmt.Errorf("a request was declined that no rule refuses: %+v", d)
	}
	return nil
}

// together sends a few charges or authorizations together, some of them on one account.
func (s *sequence) together() error {
	now := s.now()
	var requests []request
	var all []spend.Request
	var spends []*modelSpend
	method, send := "charge", s.budgets.ChargeAll
	hold := s.r.IntN(2) == 0
	if hold {
		method, send = "authorize", s.budgets.AuthorizeAll
	}
	for range 1 + s.r.IntN(4) {
		r, sp := s.pays(method, s.amount())
		if hold {
			s.held(&r, sp)
		}
		r.amount = s.scaled(r.amount)
		requests, all, spends = append(requests, r), append(all, r.money()), append(spends, sp)
	}
	for i, a := range send(ctx, all) {
		r, sp := requests[i], spends[i]
		s.tell("together %+v: %t %v", r, a.Decision.Approved, a.Err)
		if a.Err != nil {
			return a.Err
		}
		s.model.decided(s.rules, sp.accounts, now)
		s.model.note(s.rules, sp.accounts, now)
		s.model.counts(s.rules, sp.accounts, now)
		if err := s.judge(a.Decision, sp, sp.first, sp.first, 1, true); err != nil {
			return fmt.Errorf("%s, sent together with others: %w", r.id, err)
		}
		s.sent = append(s.sent, sent{r, a.Decision})
		if a.Decision.Approved {
			s.model.charge(s.rules, r.id, sp, hold, sp.first, now, now)
		}
		if err := s.crossed(a.Decision); err != nil {
			return fmt.Errorf("%s, sent together with others: %w", r.id, err)
		}
	}
	return nil
}

// upTo asks for the largest amount that fits.
func (s *sequence) upTo() error {
	r, sp := s.pays("upTo", s.amount()+s.r.Int64N(60))
	n, now := r.amount.Minor, s.now()
	least := 1 + s.r.Int64N(min(30, n))
	r.least = money(least)
	if r.hold = s.r.IntN(2) == 0; r.hold {
		s.held(&r, sp)
	}
	return s.try(r, nil, func(d spend.Decision) error {
		for sp.first = n; n > least && !s.model.fitsAll(s.rules, sp, now, n, n, 1); sp.first = n {
			n--
		}
		if err := s.judge(d, sp, n, n, 1, true); err != nil || !d.Approved {
			return err
		}
		if d.Amount != money(n) {
			return fmt.Errorf("UpTo approved %v; want %v", d.Amount, money(n))
		}
		s.model.charge(s.rules, r.id, sp, r.hold, n, now, now)
		return nil
	})
}

// credit notes money that comes in.
func (s *sequence) credit() error {
	n := 1 + s.r.Int64N(60)
	r, sp := s.pays("credit", n)
	s.shared(&r, sp)
	return s.try(r, nil, func(d spend.Decision) error {
		if !d.Approved || d.Amount != money(n) {
			return fmt.Errorf("a credit was declined, or moved another amount: %+v", d)
		}
		s.model.credit(s.rules, sp.accounts, r.tags, n, n, s.now())
		for e, err := range s.budgets.History(ctx, r.account, &spend.HistoryOptions{Limit: 1}) {
			if err != nil {
				return fmt.Errorf("history: %w", err)
			}
			if want := s.model.counted(r.account); !maps.Equal(e.Credited, want) {
				return fmt.Errorf("the rules have counted %v of the credit; want %v", e.Credited, want)
			}
		}
		return nil
	})
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

// hold makes a request about an earlier spend, mostly one with an open hold. The hold has held so
// much, and want is the error that it causes.
func (s *sequence) hold(f func(s *sequence, of string, sp *modelSpend, held int64, want error) error) error {
	now := s.now()
	of, sp := s.mostly(func(sp *modelSpend) bool { return sp.alive(now) })
	if sp == nil {
		return nil
	}
	var want error
	switch {
	case sp.gone:
		want = spend.ErrUnknownSpend
	case sp.ended || sp.expires == 0:
		want = spend.ErrHoldEnded
	case !sp.alive(now):
		want = spend.ErrHoldExpired
	}
	return f(s, of, sp, sp.held(now), want)
}

func (s *sequence) increase(of string, sp *modelSpend, _ int64, want error) error {
	n, now := s.amount(), s.now()
	r := request{method: "increase", of: of, amount: money(n)}
	least := n
	if s.r.IntN(3) == 0 {
		least = 1 + s.r.Int64N(n)
		r.least = money(least)
	}
	return s.try(r, want, func(d spend.Decision) error {
		for n > least && !s.model.fitsAll(s.rules, sp, now, n, sp.gross+n, 0) {
			n--
		}
		if d.Approved && d.Amount != money(n) {
			return fmt.Errorf("Increase added %v; want %v", d.Amount, money(n))
		}
		if err := s.judge(d, sp, n, sp.gross+n, 0, false); err != nil || !d.Approved {
			return err
		}
		sp.gross += n
		sp.parts = append(sp.parts, modelPart{at: now, held: n})
		return nil
	})
}

func (s *sequence) decrease(of string, sp *modelSpend, held int64, want error) error {
	n := s.part(held)
	if want == nil && n > held {
		want = spend.ErrNotHeld
	}
	return s.try(request{method: "decrease", of: of, amount: money(n)}, want, func(d spend.Decision) error {
		s.model.decrease(sp, n, s.now())
		return approved(d)
	})
}

func (s *sequence) extend(of string, sp *modelSpend, _ int64, want error) error {
	ttl := s.ttl()
	expiry := spend.Expiry(s.r.IntN(3))
	return s.try(request{method: "extend", of: of, ttl: ttl, expiry: expiry}, want, func(d spend.Decision) error {
		sp.expires = max(sp.expires, s.now()+ttl.Microseconds())
		if expiry != 0 {
			sp.spends = expiry == spend.SpendOnExpiry
		}
		return approved(d)
	})
}

func (s *sequence) void(of string, sp *modelSpend, _ int64, want error) error {
	return s.try(request{method: "void", of: of}, want, func(d spend.Decision) error {
		s.model.end(sp)
		return approved(d)
	})
}

func (s *sequence) capture(of string, sp *modelSpend, held int64, want error) error {
	now := s.now()
	n := s.part(held)
	r := request{method: "capture", of: of, final: s.r.IntN(2) == 0, force: s.r.IntN(3) == 0}
	switch {
	case r.final && s.r.IntN(8) == 0:
		n = 0
	case r.force && s.r.IntN(8) == 0 && s.model.overfills(s.rules, sp, most-held, now):
		n = most
	}
	if want == nil && n > held {
		want = spend.ErrNotHeld
	}
	if r.force && n > 0 && !sp.gone && !(sp.spent && !sp.ended) {
		want = nil
		if s.model.overfills(s.rules, sp, n-held, now) {
			want = spend.ErrAmount
		}
	}
	r.amount = money(n)
	return s.try(r, want, func(d spend.Decision) error {
		s.model.capture(s.rules, sp, n, now, r.final)
		return approved(d)
	})
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
	r := request{method: "refund", of: of, amount: money(n), force: s.r.IntN(3) == 0}
	var want error
	switch {
	case sp.gone:
		want = spend.ErrUnknownSpend
	case n > left && !r.force:
		want = spend.ErrNotCaptured
	}
	return s.try(r, want, func(d spend.Decision) error {
		s.model.refund(s.rules, sp, min(n, left), s.now())
		if n > left {
			s.model.credit(s.rules, sp.accounts, sp.tags, n-left, sp.first, s.now())
		}
		return approved(d)
	})
}

// cancel cancels a spend, a request of another kind, or an ID that was never sent.
func (s *sequence) cancel() error {
	r := request{method: "cancel", id: s.id(), account: s.account()}
	known, approved := false, false
	switch s.r.IntN(4) {
	case 0:
	case 1:
		if len(s.sent) > 0 {
			x := s.sent[s.r.IntN(len(s.sent))]
			r.id, known, approved = x.request.id, true, x.first.Approved
			if r.account = x.request.account; r.account == "" {
				r.account = s.model.spends[x.request.of].accounts[0]
			}
		}
	default:
		open := func(sp *modelSpend) bool { return sp.alive(s.now()) || sp.refundable() > 0 }
		if id, sp := s.mostly(open); sp != nil {
			r.id, r.account, known = id, sp.accounts[0], !sp.gone
		}
	}
	sp := s.model.spends[r.id]
	if first, again := s.model.canceled[r.id]; again {
		d, err := r.send(s.budgets)
		if want := first; err != nil || d.At != want.At || !d.Replayed || !d.Canceled || d.Amount != want.Amount {
			return fmt.Errorf("a second cancel: %+v, %w; want %+v", d, err, want)
		}
		return nil
	}
	var want error
	switch {
	case known && s.r.IntN(8) == 0:
		r.account, want = "other", spend.ErrRequest
	case known && sp == nil && approved:
		want = spend.ErrIDReused
	}
	err := s.try(r, want, func(d spend.Decision) error {
		n := int64(0)
		if known && sp != nil {
			n = sp.held(s.now()) + sp.refundable()
			s.model.cancel(s.rules, sp, s.now())
		}
		if sp != nil && sp.gone { // it goes on counting, and the ID is free
			i, other := slices.Index(s.model.order, r.id), r.id+" of old"
			s.model.spends[other], s.model.order[i] = sp, other
			delete(s.model.spends, r.id)
		}
		if !d.Approved || !d.Canceled || d.Amount.Minor != n {
			return fmt.Errorf("a cancel has given back %v; want %d: %+v", d.Amount, n, d)
		}
		s.model.canceled[r.id] = d
		for i := range s.sent {
			if x := &s.sent[i]; x.request.id == r.id && x.request.method != "cancel" {
				x.first = d
				x.first.Approved, x.first.Amount, x.first.RetryAfter = false, spend.Money{}, store.Never
			}
		}
		return nil
	})
	if err == nil && !known && s.r.IntN(2) == 0 {
		return s.moved(r.id, r.account)
	}
	return err
}

// moved tells of money that has moved under an ID that was canceled before its request came.
func (s *sequence) moved(id, account string) error {
	n, now := s.amount(), s.now()
	r := request{method: "record", id: id, account: account, amount: money(n)}
	record := s.r.IntN(2) == 0
	if !record {
		r = request{method: "capture", of: id, amount: money(n), force: true}
	}
	return s.try(r, nil, func(d spend.Decision) error {
		s.model.charge(s.rules, id, &modelSpend{accounts: []string{account}, first: n}, false, n, now, now)
		if record {
			delete(s.model.canceled, id)
			s.sent = slices.DeleteFunc(s.sent, func(x sent) bool { return x.request.id == id && x.request.method == "cancel" })
		}
		return approved(d)
	})
}
