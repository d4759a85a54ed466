package decide

import (
	"context"
	"fmt"

	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// view loads accounts as they are now and calls f. The ledger stores nothing.
func (d *Decider) view(ctx context.Context, keys []string, tags map[string]string, f func(*group) error) error {
	for n := 1; ; n++ {
		about, k := keys, d.Rules.known()
		err := d.Ledger.View(ctx, &ledger.Job{Accounts: about, Rules: k.of(about...), Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			g := &group{decider: d, snap: snap, known: k, tags: tags}
			if err := g.load(about, nil); err != nil {
				return nil, err
			}
			return nil, f(g)
		}})
		if err == nil {
			return nil
		}
		if keys, err = d.again(ctx, keys, n, err); err != nil {
			return err
		}
	}
}

// look returns that which f makes of an account as it is now. The ledger may call f more than once,
// and after look has returned.
func look[T any](ctx context.Context, d *Decider, key string, f func(*account) (T, error)) (T, error) {
	out := new(T)
	err := d.view(ctx, []string{key}, nil, func(g *group) (err error) {
		*out, err = f(g.accounts[0])
		return err
	})
	if err != nil {
		return *new(T), err
	}
	return *out, nil
}

// Now returns the ledger's clock.
func (d *Decider) Now(ctx context.Context) (int64, error) {
	now := new(int64)
	err := d.view(ctx, nil, nil, func(g *group) error { *now = ending(g.now); return nil })
	return *now, err
}

// AbleToAccept answers whether all rules would approve a charge.
func (d *Decider) AbleToAccept(ctx context.Context, act *Action) (Answer, error) {
	out := new(Answer)
	err := d.view(ctx, act.Keys, act.Tags, func(g *group) (err error) {
		if err := g.countable(act.Amount); err != nil {
			return err
		}
		g.ask(&figures.Ask{Units: act.Amount, First: act.Amount, Total: act.Amount, Spends: 1, Tags: act.Tags})
		*out, err = g.answer(false)
		return err
	})
	if err != nil {
		return Answer{}, err
	}
	return *out, nil
}

// Remaining returns the figures of an account: of each rule, and of each value with units. All are
// of account 0.
func (d *Decider) Remaining(ctx context.Context, key string) (Answer, error) {
	return look(ctx, d, key, func(a *account) (Answer, error) {
		list := Answer{Accounts: []string{a.key}}
		for _, rule := range a.tallies {
			values, err := rule.All(a)
			if err != nil {
				return Answer{}, err
			}
			for _, f := range values {
				usage := f.Report(a.time)
				if usage.GrowsAt, err = f.GrowsAt(a); err != nil {
					return Answer{}, err
				}
				list.Remaining = append(list.Remaining, Usage{0, usage})
			}
		}
		return list, nil
	})
}

// Limits returns the account's own limits that are in force or will be, in the order of their
// rules.
func (d *Decider) Limits(ctx context.Context, key string) ([]Limit, error) {
	return look(ctx, d, key, func(a *account) ([]Limit, error) { return a.own.list(a.tallies, a.time), nil })
}

// Plan returns the plan of an account.
func (d *Decider) Plan(ctx context.Context, key string) (string, error) {
	return look(ctx, d, key, func(a *account) (string, error) { return a.plan, nil })
}

// HoldsPage is a page of the open holds of an account, in the order of their expiry.
type HoldsPage struct {
	List []Status
	Last ledger.Hold
	More bool
}

// OpenHolds returns the page of open holds after a hold, or the first one.
func (d *Decider) OpenHolds(ctx context.Context, key string, after ledger.Hold) (HoldsPage, error) {
	return look(ctx, d, key, func(a *account) (HoldsPage, error) {
		if after.Expires == 0 {
			after.Expires = ending(a.time + 1) // those before it have expired
		}
		held, next, err := a.held(after, maxTime, holdsPage)
		p := HoldsPage{More: next != 0}
		for _, sp := range held {
			p.Last.Expires, p.Last.SpendID = sp.expires, sp.id
			if !a.expired(sp) { // since the page before
				p.List = append(p.List, sp.status(false))
			}
		}
		if err == nil && p.More && len(held) == 0 {
			err = fmt.Errorf("spend: %w: the ledger returned no holds although it announced more", store.ErrCorrupt)
		}
		return p, err
	})
}

const holdsPage = 200

// Status is a spend as it is; see spend.Status.
type Status struct {
	ID        string
	Accounts  []string // keys
	State     string
	ExpiresAt int64 // 0 if nothing was ever held
	Total     money.Money
	Held      money.Money
	Captured  money.Money
	Refunded  money.Money
	Tags      map[string]string
}

// status returns the spend, whose hold may have expired.
func (sp *spend) status(expired bool) Status {
	taken := int64(0)
	spent := expired && sp.spends && sp.ended == ""
	for _, p := range sp.parts {
		taken += p.takenBy(spent)
	}
	s := Status{
		ID: sp.id, Accounts: sp.accounts, State: sp.state(expired), ExpiresAt: sp.expires, Tags: sp.tags,
		Total: sp.money(sp.total), Captured: sp.money(taken), Refunded: sp.money(taken - sp.refundable(spent)),
		Held: sp.money(0),
	}
	if sp.amount == 0 {
		s.ExpiresAt = 0 // an authorization of 0 holds nothing
	}
	if s.State == "held" {
		s.Held = sp.money(sp.held())
	}
	return s
}

func (sp *spend) state(expired bool) string {
	switch {
	case sp.ended == figures.KindCancel:
		return "canceled"
	case sp.expires == 0:
		return "charged"
	case sp.ended == figures.KindCapture:
		return "captured"
	case sp.ended == figures.KindVoid:
		return "voided"
	case sp.ended == figures.KindExpire || expired:
		return "expired"
	}
	return "held"
}

// Get returns the answer to an earlier request of any kind, and the spend that it began, or nil.
func (d *Decider) Get(ctx context.Context, id string) (Answer, *Status, error) {
	type found struct {
		Answer
		spend *Status
	}
	out := new(found)
	job := &ledger.Job{Requests: []string{id}, SpendID: id, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		*out = found{}
		r, err := snap.Request(id)
		if err != nil {
			return nil, err
		}
		if r == nil {
			return nil, fmt.Errorf("spend: %w: its ID is unknown, or is older than KeepIDs", ErrUnknownSpend)
		}
		if out.Answer, err = replay(r); err != nil || r.Spend == nil {
			return nil, err
		}
		out.spend, err = current(snap, r)
		return nil, err
	}}
	if err := d.Ledger.View(ctx, job); err != nil {
		return Answer{}, nil, err
	}
	return out.Answer, out.spend, nil
}

// current returns the spend that a request began, by the latest of the ledger's clock and the times
// of its accounts.
func current(snap ledger.Snapshot, r *ledger.Request) (*Status, error) {
	sp, err := spendOf(r)
	if err != nil {
		return nil, err
	}
	expired := false
	for _, key := range r.Accounts {
		stored, err := snap.Account(key)
		if err != nil {
			return nil, err
		}
		a := account{past: past{key: key, time: minTime}}
		if stored.State != nil {
			if _, err := a.decode(&stored); err != nil {
				return nil, err
			}
		}
		a.time = max(a.time, snap.Now())
		expired = expired || a.expired(sp)
	}
	return new(sp.status(expired)), nil
}
