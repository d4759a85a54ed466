package spendtest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/spend"
)

// account returns one of the accounts.
func (s *sequence) account() string { return s.accounts[s.r.IntN(len(s.accounts))] }

// setLimit gives an account a limit of its own, for some time or for good, or takes it away.
func (s *sequence) setLimit() error {
	r, account, now := s.rules[s.r.IntN(len(s.rules))], s.account(), s.clock.us.Load()
	n := s.r.Int64N(r.most + 2)
	if r.kind == "leaky" { // doubles hold its leak rates exactly
		n = []int64{0, 16, 32, 64, 128, 256}[s.r.IntN(6)]
	}
	key, l := account+" "+r.name, spend.RuleLimit{Rule: r.name}
	o := s.model.own[key]
	switch s.r.IntN(4) {
	case 0:
		l.Default, o = true, own{}
	case 1:
		l.Amount = r.units(n)
		o.set, o.amount = true, n
	default:
		l.Amount = r.units(n)
		l.Until = time.UnixMicro(now + tick*s.r.Int64N(64*40))
		o.until, o.raised = l.Until.UnixMicro(), n
	}
	req := spend.LimitsRequest{ID: s.id(), Account: account, Limits: []spend.RuleLimit{l}}
	d, err := s.send(req.ID, func(b *spend.Budgets) (spend.Decision, error) { return b.SetLimits(context.Background(), req) })
	s.tell("limit %s of %s: %+v: %v", req.ID, account, l, err)
	var want error
	if !l.Default && n > r.most {
		want = spend.ErrBudget
	}
	if bad := refuses(err, want); bad != nil || want != nil {
		return bad
	}
	if !d.Approved {
		return fmt.Errorf("a limit was declined")
	}
	s.model.own[key] = o
	s.model.decided(s.rules, []string{account}, now)
	return nil
}

// freeze freezes or unfreezes an account.
func (s *sequence) freeze() error {
	r := spend.FreezeRequest{ID: s.id(), Account: s.account()}
	call := (*spend.Budgets).Unfreeze
	if s.model.frozen[r.Account] == "" || s.r.IntN(4) == 0 {
		call, r.Reason = (*spend.Budgets).Freeze, "lost "+r.ID
	}
	_, err := s.send(r.ID, func(b *spend.Budgets) (spend.Decision, error) { return call(b, context.Background(), r) })
	s.tell("freeze %s of %s: %q: %v", r.ID, r.Account, r.Reason, err)
	if err == nil {
		s.model.frozen[r.Account] = r.Reason
	}
	return err
}

// upTo asks for the largest amount that fits.
func (s *sequence) upTo() error {
	r := spend.UpToRequest{Request: spend.Request{ID: s.id(), Account: s.account(), Amount: money(s.amount() + s.r.Int64N(60))}}
	r.Tags = s.tags()
	r.Least = money(1 + s.r.Int64N(min(30, r.Amount.Minor)))
	sp, now := &modelSpend{accounts: []string{r.Account}, tags: r.Tags}, s.clock.us.Load()
	if r.Hold = s.r.IntN(2) == 0; r.Hold {
		r.TTL = time.Duration(tick*(1+s.r.Int64N(64*40))) * time.Microsecond
		sp.expires = now + r.TTL.Microseconds()
	}
	d, err := s.send(r.ID, func(b *spend.Budgets) (spend.Decision, error) { return b.UpTo(context.Background(), r) })
	s.tell("up to %s %v %v of %d to %d, hold %t: %d %v", r.ID, sp.accounts, r.Tags, r.Least.Minor, r.Amount.Minor, r.Hold, d.Amount.Minor, err)
	if err != nil {
		return err
	}
	n := r.Amount.Minor
	for n > r.Least.Minor && !s.model.fitsAll(s.rules, r.Account, now, n, r.Tags) {
		n--
	}
	sp.first = n
	if err := s.judge(d, sp, n, n, 1); err != nil {
		return err
	}
	if !d.Approved {
		return nil
	}
	if d.Amount != money(n) {
		return fmt.Errorf("UpTo approved %v; want %v", d.Amount, money(n))
	}
	s.model.charge(s.rules, r.ID, sp, r.Hold, n, now, now)
	return nil
}

func (m *model) fitsAll(rules []modelRule, account string, t, n int64, tags map[string]string) bool {
	return !slices.ContainsFunc(rules, func(r modelRule) bool { return !m.fits(r, account, t, n, n, n, 1, tags) })
}

func (s *sequence) decrease() error {
	id, sp := s.open()
	if sp == nil {
		return nil
	}
	now := s.clock.us.Load()
	r := spend.DecreaseRequest{ID: s.id(), HoldID: id, Amount: money(1 + s.r.Int64N(40))}
	if held := sp.held(now); held > 0 && s.r.IntN(4) > 0 {
		r.Amount = money(1 + s.r.Int64N(held))
	}
	n := r.Amount.Minor
	_, err := s.send(r.ID, func(b *spend.Budgets) (spend.Decision, error) { return b.Decrease(context.Background(), r) })
	s.tell("decrease %s of %s by %d: %v", r.ID, id, n, err)
	want := s.usable(sp)
	if want == nil && n > sp.held(now) {
		want = spend.ErrNotHeld
	}
	if bad := refuses(err, want); bad != nil || want != nil {
		return bad
	}
	s.model.decrease(sp, n, now)
	return nil
}

func (s *sequence) extend() error {
	id, sp := s.open()
	if sp == nil {
		return nil
	}
	r := spend.ExtendRequest{ID: s.id(), HoldID: id, TTL: time.Duration(tick*(1+s.r.Int64N(64*40))) * time.Microsecond}
	_, err := s.send(r.ID, func(b *spend.Budgets) (spend.Decision, error) { return b.Extend(context.Background(), r) })
	s.tell("extend %s of %s by %v: %v", r.ID, id, r.TTL, err)
	want := s.usable(sp)
	if bad := refuses(err, want); bad != nil || want != nil {
		return bad
	}
	sp.expires = max(sp.expires, s.clock.us.Load()+r.TTL.Microseconds())
	return nil
}

// listed compares the open holds of an account, one of the spends, and the account's own limits.
func (s *sequence) listed(account string) error {
	now := s.clock.us.Load()
	var want []string
	for _, id := range s.model.order {
		if sp := s.model.spends[id]; sp.alive(now) && slices.Contains(sp.accounts, account) {
			want = append(want, fmt.Sprint(id, " ", sp.held(now), " ", sp.expires))
		}
	}
	slices.Sort(want)
	holds, err := s.budgets.Holds(context.Background(), account)
	if err != nil {
		return fmt.Errorf("holds: %w", err)
	}
	var got []string
	for i, h := range holds {
		if i > 0 && h.ExpiresAt.Before(holds[i-1].ExpiresAt) {
			return fmt.Errorf("holds: %+v; want them in the order of expiry", holds)
		}
		got = append(got, fmt.Sprint(h.ID, " ", h.Held.Minor, " ", h.ExpiresAt.UnixMicro()))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return fmt.Errorf("holds of account %s: %q; want %q", account, got, want)
	}
	limits, err := s.budgets.Limits(context.Background(), account)
	if err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	var own []spend.RuleLimit
	for _, r := range s.rules {
		o := s.model.own[account+" "+r.name]
		if o.until > now {
			own = append(own, spend.RuleLimit{Rule: r.name, Amount: r.units(o.raised), Until: time.UnixMicro(o.until).UTC()})
		}
		if o.set {
			own = append(own, spend.RuleLimit{Rule: r.name, Amount: r.units(o.amount)})
		}
	}
	if !reflect.DeepEqual(limits, own) {
		return fmt.Errorf("limits of account %s: %+v; want %+v", account, limits, own)
	}
	return s.found()
}

// found compares one of the spends with the answer of Get.
func (s *sequence) found() error {
	if len(s.model.order) == 0 {
		return nil
	}
	id := s.model.order[s.r.IntN(len(s.model.order))]
	sp := s.model.spends[id]
	got, err := s.budgets.Get(context.Background(), id)
	if sp.gone {
		return refuses(err, spend.ErrUnknownSpend)
	}
	if err != nil || got.Spend == nil {
		return fmt.Errorf("get %s: %+v, %w", id, got, err)
	}
	taken, refunded := int64(0), int64(0)
	for _, p := range sp.parts {
		taken, refunded = taken+p.taken, refunded+p.refunded
	}
	x := got.Spend
	if x.Held.Minor != sp.held(s.clock.us.Load()) || x.Captured.Minor != taken || x.Refunded.Minor != refunded ||
		len(x.Accounts) != len(sp.accounts) || (x.State == "held") != sp.alive(s.clock.us.Load()) ||
		strings.HasPrefix(x.State, "ch") != (sp.expires == 0) || !got.Decision.Approved || !got.Decision.Replayed {
		return fmt.Errorf("get %s: %+v; want %+v", id, *x, *sp)
	}
	return nil
}

// credit notes money that comes in.
func (s *sequence) credit() error {
	r := spend.Request{ID: s.id(), Account: s.account(), Amount: money(1 + s.r.Int64N(60))}
	r.Tags = s.tags()
	accounts := []string{r.Account}
	if s.r.IntN(4) == 0 {
		other := s.other(r.Account)
		r.Also, accounts = []spend.Account{{Budget: s.name, Name: other}}, append(accounts, other)
	}
	d, err := s.send(r.ID, func(b *spend.Budgets) (spend.Decision, error) { return b.Credit(context.Background(), r) })
	s.tell("credit %s %v %v of %d: %v", r.ID, accounts, r.Tags, r.Amount.Minor, err)
	if err != nil {
		return err
	}
	if !d.Approved || d.Amount != r.Amount {
		return fmt.Errorf("a credit was declined, or moved another amount: %+v", d)
	}
	s.model.credit(s.rules, accounts, r.Tags, r.Amount.Minor, s.clock.us.Load())
	for e, err := range s.budgets.History(context.Background(), r.Account, &spend.HistoryOptions{Limit: 1}) {
		if err != nil {
			return fmt.Errorf("history: %w", err)
		}
		if want := s.model.counted(r.Account); !maps.Equal(e.Credited, want) {
			return fmt.Errorf("the rules have counted %v of the credit; want %v", e.Credited, want)
		}
	}
	return nil
}
