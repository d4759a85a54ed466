package spendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brimgo/brim/spend"
)

// step makes one random request and checks its answer against the model.
func (s *sequence) step() error {
	if s.keep > 0 && s.r.IntN(6) == 0 {
		return s.prune()
	}
	switch n := s.r.IntN(100); {
	case n < 15:
		return s.charge("spend")
	case n < 18:
		return s.together()
	case n < 37:
		return s.charge("authorize")
	case n < 42:
		return s.charge("record")
	case n < 47:
		return s.upTo()
	case n < 53:
		return s.increase()
	case n < 57:
		return s.decrease()
	case n < 60:
		return s.extend()
	case n < 71:
		return s.capture()
	case n < 76:
		return s.void()
	case n < 81:
		return s.refund()
	case n < 86:
		return s.credit()
	case n < 88:
		return s.freeze()
	case n < 92:
		return s.setLimit()
	case n < 96:
		return s.again()
	}
	return s.change()
}

func (s *sequence) id() string {
	s.ids++
	return fmt.Sprintf("%s-%d", s.name, s.ids)
}

// tags returns tags of a request, or none.
func (s *sequence) tags() map[string]string {
	if s.r.IntN(2) == 0 {
		return nil
	}
	return map[string]string{"category": []string{"travel", "food"}[s.r.IntN(2)]}
}

// other returns the other account.
func (s *sequence) other(account string) string {
	if account == s.accounts[0] {
		return s.accounts[1]
	}
	return s.accounts[0]
}

func (s *sequence) amount() int64 {
	if s.r.IntN(3) == 0 { // an exact fit for one of the rules
		r, account := s.rules[s.r.IntN(len(s.rules))], s.accounts[0]
		if room := s.model.room(r, account, s.clock.us.Load()); room > 0 && r.kind != "count" {
			return room
		}
	}
	return 1 + s.r.Int64N(40)
}

func (s *sequence) charge(how string) error {
	r := spend.Request{ID: s.id(), Account: s.accounts[s.r.IntN(2)], Amount: money(s.amount())}
	r.Tags = s.tags()
	sp := &modelSpend{accounts: []string{r.Account}, tags: r.Tags, first: r.Amount.Minor}
	if s.r.IntN(4) == 0 {
		other := s.other(r.Account)
		r.Also = []spend.Account{{Budget: s.name, Name: other}}
		sp.accounts = append(sp.accounts, other)
	}
	now := s.clock.us.Load()
	at := now
	switch how {
	case "authorize":
		r.TTL = time.Duration(tick*(1+s.r.Int64N(64*40))) * time.Microsecond
		sp.expires = now + r.TTL.Microseconds()
	case "record":
		if s.r.IntN(2) == 0 {
			at -= tick * s.r.Int64N(64*100)
			r.Dated = time.UnixMicro(at)
		}
		if trial := *sp; s.r.IntN(8) == 0 {
			if trial.first = most; s.model.overfills(s.rules, &trial, most, now) {
				*sp, r.Amount = trial, money(most)
			}
		}
	}
	n := r.Amount.Minor
	r.Amount = s.scaled(r.Amount)
	if !s.h.CompareRarely || s.r.IntN(8) == 0 {
		asked, err := s.budgets.AbleToAccept(context.Background(), r)
		if err != nil {
			return fmt.Errorf("AbleToAccept: %w", err)
		}
		written := s.model.asked(s.rules, sp.accounts, now)
		if err := s.judge(asked, sp, n, n, 1); err != nil {
			return fmt.Errorf("AbleToAccept: %w", err)
		}
		written()
	}
	d, err := s.send(r.ID, func(b *spend.Budgets) (spend.Decision, error) {
		switch how {
		case "spend":
			return b.Charge(context.Background(), r)
		case "record":
			return b.Record(context.Background(), r)
		}
		return b.Authorize(context.Background(), r)
	})
	s.tell("%s %s %v %v of %d: %t %v", how, r.ID, sp.accounts, r.Tags, n, d.Approved, err)
	var want error
	switch {
	case !r.Dated.IsZero() && s.model.mayBeGone(sp.accounts, at) && errors.Is(err, spend.ErrRequest):
		return nil
	case how == "record" && s.model.overfills(s.rules, sp, n, now):
		want = spend.ErrAmount
	}
	if bad := refuses(err, want); bad != nil || want != nil {
		return bad
	}
	switch {
	case how == "record" && !d.Approved:
		return fmt.Errorf("a record was declined")
	case how != "record":
		if err := s.judge(d, sp, n, n, 1); err != nil {
			return err
		}
	}
	if d.Approved {
		s.model.charge(s.rules, r.ID, sp, how == "authorize", n, now, at)
	}
	return nil
}

// open returns an earlier spend, mostly one with an open hold.
func (s *sequence) open() (string, *modelSpend) {
	now := s.clock.us.Load()
	return s.mostly(func(sp *modelSpend) bool { return sp.alive(now) })
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

// usable returns the error that a call on the hold must return.
func (s *sequence) usable(sp *modelSpend) error {
	switch {
	case sp.gone:
		return spend.ErrUnknownSpend
	case sp.ended || sp.expires == 0:
		return spend.ErrHoldEnded
	case !sp.alive(s.clock.us.Load()):
		return spend.ErrHoldExpired
	}
	return nil
}

func (s *sequence) increase() error {
	id, sp := s.open()
	if sp == nil {
		return nil
	}
	r := spend.IncreaseRequest{ID: s.id(), HoldID: id, Amount: money(s.amount())}
	n, now := r.Amount.Minor, s.clock.us.Load()
	r.Amount = s.scaled(r.Amount)
	d, err := s.send(r.ID, func(b *spend.Budgets) (spend.Decision, error) { return b.Increase(context.Background(), r) })
	s.tell("increase %s of %s by %d: %t %v", r.ID, id, n, d.Approved, err)
	want := s.usable(sp)
	if bad := refuses(err, want); bad != nil || want != nil {
		return bad
	}
	if err := s.judge(d, sp, n, sp.gross+n, 0); err != nil {
		return err
	}
	if d.Approved {
		sp.gross += n
		sp.parts = append(sp.parts, modelPart{at: now, held: n})
	}
	return nil
}

func (s *sequence) capture() error {
	id, sp := s.open()
	if sp == nil {
		return nil
	}
	now := s.clock.us.Load()
	r := spend.CaptureRequest{
		ID: s.id(), HoldID: id, Amount: money(1 + s.r.Int64N(40)),
		Final: s.r.IntN(2) == 0, Force: s.r.IntN(3) == 0,
	}
	if held := sp.held(now); held > 0 && s.r.IntN(2) == 0 {
		r.Amount = money(1 + s.r.Int64N(held))
	}
	switch {
	case r.Final && s.r.IntN(8) == 0:
		r.Amount = money(0)
	case r.Force && s.r.IntN(8) == 0 && s.model.overfills(s.rules, sp, most-sp.held(now), now):
		r.Amount = money(most)
	}
	n := r.Amount.Minor
	r.Amount = s.scaled(r.Amount)
	d, err := s.send(r.ID, func(b *spend.Budgets) (spend.Decision, error) { return b.Capture(context.Background(), r) })
	s.tell("capture %s of %s, %d, final %t, force %t: %v", r.ID, id, n, r.Final, r.Force, err)
	want := s.usable(sp)
	if want == nil && n > sp.held(now) {
		want = spend.ErrNotHeld
	}
	if r.Force && n > 0 && !sp.gone {
		want = nil
		if s.model.overfills(s.rules, sp, n-sp.held(now), now) {
			want = spend.ErrAmount
		}
	}
	if bad := refuses(err, want); bad != nil || want != nil {
		return bad
	}
	if !d.Approved {
		return fmt.Errorf("a capture was declined")
	}
	s.model.capture(s.rules, sp, n, now, r.Final)
	return nil
}

func (s *sequence) void() error {
	id, sp := s.open()
	if sp == nil {
		return nil
	}
	r := spend.VoidRequest{ID: s.id(), HoldID: id}
	_, err := s.send(r.ID, func(b *spend.Budgets) (spend.Decision, error) { return b.Void(context.Background(), r) })
	s.tell("void %s of %s: %v", r.ID, id, err)
	want := s.usable(sp)
	if bad := refuses(err, want); bad != nil || want != nil {
		return bad
	}
	s.model.end(sp)
	return nil
}

func (s *sequence) refund() error {
	id, sp := s.mostly((*modelSpend).captured)
	if sp == nil {
		return nil
	}
	n, left := 1+s.r.Int64N(40), sp.refundable()
	switch how := s.r.IntN(4); {
	case how == 0:
		n = left + 1 // one unit too many
	case how > 1 && left > 0:
		n = 1 + s.r.Int64N(left)
	}
	r := spend.RefundRequest{ID: s.id(), SpendID: id, Amount: s.scaled(money(n))}
	_, err := s.send(r.ID, func(b *spend.Budgets) (spend.Decision, error) { return b.Refund(context.Background(), r) })
	s.tell("refund %s of %s, %d: %v", r.ID, id, n, err)
	var want error
	switch {
	case sp.gone:
		want = spend.ErrUnknownSpend
	case n > sp.refundable():
		want = spend.ErrNotCaptured
	}
	if bad := refuses(err, want); bad != nil || want != nil {
		return bad
	}
	s.model.refund(s.rules, sp, n, s.clock.us.Load())
	return nil
}
