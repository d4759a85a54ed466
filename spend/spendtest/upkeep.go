package spendtest

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
)

// setLimit gives an account a limit of its own, for some time or for good, or takes it away.
func (s *sequence) setLimit() error {
	account, now := s.account(), s.now()
	r := s.of(account)[s.r.IntN(len(s.of(account)))]
	n := s.r.Int64N(r.Most + 2)
	if r.Kind == "leaky" { // doubles hold its leak rates exactly
		n = []int64{0, 16, 32, 64, 128, 256}[s.r.IntN(6)]
	}
	l := spend.RuleLimit{Rule: r.Name}
	switch s.r.IntN(4) {
	case 0:
		l.Default = true
	case 1:
		l.Amount = r.units(n)
	default:
		l.Amount = r.units(n)
		l.Until = time.UnixMicro(now).Add(s.ttl() - time.Duration(tick)*time.Microsecond)
	}
	if !l.Default && r.Kind != "leaky" && s.r.IntN(3) == 0 {
		l.Add, l.Amount = true, r.units(n-r.Most/2)
	}
	if s.r.IntN(4) == 0 { // half of them hold
		l.If = new(r.units(s.model.usual(r, account) + s.r.Int64N(2)))
	}
	_, err := s.try(Request{Method: "limit", Account: account, Limits: []spend.RuleLimit{l}})
	return err
}

// freeze freezes or unfreezes an account.
func (s *sequence) freeze() error {
	r := Request{Method: "unfreeze", ID: s.id(), Account: s.account()}
	if s.model.frozen[r.Account] == "" || s.r.IntN(4) == 0 {
		r.Method, r.Reason = "freeze", "lost "+r.ID
	}
	_, err := s.try(r)
	return err
}

// strays reports whether a sequence decides under a clock that is ahead. One that prunes may lose
// entries that a mended account needs. A Leaky rule is full after a mend if it has counted under
// the wrong clock, which the model does not tell.
func (s *sequence) strays() bool {
	return s.keep == 0 && !slices.ContainsFunc(s.all, func(r Rule) bool { return r.Kind == "leaky" })
}

// stray makes a request under a clock that is ahead.
func (s *sequence) stray() error {
	if !s.strays() {
		return nil
	}
	s.tell("the clock is ahead")
	return cmp.Or(s.step(), s.compare())
}

// touch decides about all accounts, so that all holds expire in all of them by the same time.
func (s *sequence) touch() error {
	if !s.strays() {
		return nil
	}
	for _, account := range s.accounts {
		if _, err := s.try(Request{Method: "unfreeze", Account: account}); err != nil {
			return err
		}
	}
	return nil
}

// mend sets the accounts right, whose time is top.
func (s *sequence) mend(top int64) error {
	if !s.strays() {
		return nil
	}
	var mended []*attempt
	var answers []spend.Decision
	for _, account := range s.accounts {
		r := Request{Method: "mend", ID: s.id(), Account: account, Reason: "ahead"}
		d, err := s.send(r)
		if err != nil || !d.Approved || d.At.UnixMicro() != s.now() {
			return fmt.Errorf("mend: %+v, %w; want an approval at the time of the clock", d, err)
		}
		a := &attempt{Model: s.model, Request: r, rules: s.of, now: s.now(), alone: true, spend: &modelSpend{accounts: r.accounts()}}
		a.noted()
		s.model.known[r.ID] = known{account, true}
		mended, answers = append(mended, a), append(answers, d)
	}
	// A spend may count against both accounts.
	s.model.mend(func(string) []Rule { return s.all }, s.accounts, top, s.now())
	for i, a := range mended {
		list, wrong := a.figures(&Answer{Decision: answers[i]})
		if wrong == nil {
			wrong = told(differ.Fields(answers[i].Remaining, list) + differ.Fields(answers[i].Crossed, a.crossings(list)))
		}
		if wrong != nil {
			return fmt.Errorf("mend: %w", wrong)
		}
	}
	return nil
}

// collect returns the items of a list before the first error, and that error.
func collect[T any](list iter.Seq2[T, error]) (all []T, err error) {
	for x, err := range list {
		if err != nil {
			return all, err
		}
		all = append(all, x)
	}
	return all, nil
}

// listed compares the open holds of an account, one of the spends, and the account's own limits.
func (s *sequence) listed(account string) error {
	now := s.now()
	var want []string
	for _, id := range s.model.order {
		if sp := s.model.spends[id]; sp.alive(now) && slices.Contains(sp.accounts, account) {
			want = append(want, fmt.Sprint(id, " ", sp.held(now), " ", sp.expires))
		}
	}
	slices.Sort(want)
	holds, err := collect(s.budgets.Holds(ctx, s.anyName(account)))
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
	limits, err := s.budgets.Limits(ctx, s.anyName(account))
	if err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	var own []spend.RuleLimit
	for _, r := range s.of(account) {
		o := s.model.own[account+" "+r.Name]
		if o.until > now {
			own = append(own, spend.RuleLimit{Rule: r.Name, Amount: r.units(o.raised), Until: time.UnixMicro(o.until).UTC()})
		}
		if o.set {
			own = append(own, spend.RuleLimit{Rule: r.Name, Amount: r.units(o.amount)})
		}
	}
	if d := differ.Fields(limits, own); d != "" {
		return fmt.Errorf("limits of account %s:\n%s", account, d)
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
	got, err := s.budgets.Get(ctx, id)
	_, canceled := s.model.canceled[id]
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
	if x.Held.Minor != sp.held(s.now()) || x.Captured.Minor != taken || x.Refunded.Minor != refunded ||
		len(x.Accounts) != len(sp.accounts) || (x.State == "held") != sp.alive(s.now()) ||
		(x.State == "charged") != (sp.expires == 0 && !canceled) || (x.State == "canceled") != canceled ||
		got.Decision.Approved == canceled || got.Decision.Canceled != canceled || !got.Decision.Replayed {
		return fmt.Errorf("get %s: %+v; want %+v", id, *x, *sp)
	}
	return nil
}

// exported compares the sum of all entries of each account with the model.
func (s *sequence) exported() error {
	sums := make(map[string]int64)
	for e, err := range s.budgets.Export(ctx, spend.Entry{}) {
		if err != nil {
			return fmt.Errorf("export: %w", err)
		}
		s.firstName(&e.Account)
		if at := e.At.UnixMicro(); at <= s.model.gone[e.Name] {
			return fmt.Errorf("export: entry %d of account %s is left; Prune must have removed it", e.Seq, e.Name)
		} else if at > s.model.pruned[e.Name] {
			if e.Kind != "expire" { // it comes some time after the expiry
				sums[e.Name] += e.Used.Minor
			}
		}
	}
	for _, account := range s.accounts {
		used := int64(0)
		for _, v := range s.model.moves[account] {
			if v.at > s.model.pruned[account] && !v.expiry {
				used += v.used
			}
		}
		if sums[account] != used {
			return fmt.Errorf("export: the entries of account %s that Prune keeps amount to %d; want %d", account, sums[account], used)
		}
	}
	return nil
}

// prunes reports whether a sequence prunes. To prune, some ledgers go through the requests of all
// sequences before, so later ones do not prune.
func prunes(number int64) bool { return number%4 == 0 && number <= 2000 }

// beginPruning lets a sequence prune: its IDs live for seconds.
func (s *sequence) beginPruning() error {
	if s.keep == 0 {
		return nil
	}
	for _, account := range s.accounts { // Prune sees the accounts that the ledger has
		if _, err := s.try(Request{Method: "unfreeze", Account: account}); err != nil {
			return err
		}
	}
	return nil
}

// options returns the options of the budgets.
func (s *sequence) options() *spend.Options {
	if s.keep == 0 {
		return nil
	}
	keep := time.Duration(s.keep) * time.Microsecond
	return &spend.Options{HoldTTL: keep, KeepIDs: keep}
}

// prune prunes, and compares the number of IDs that are gone.
func (s *sequence) prune() error {
	done, err := s.budgets.Prune(ctx)
	s.tell("prune: %+v, %v", done, err)
	if err != nil {
		return fmt.Errorf("prune: %w", err)
	}
	now := s.now()
	s.model.prune(s.all, s.accounts, s.keep, now)
	ids := make(map[string]bool) // that are gone; a request and its cancellation have one
	left := slices.DeleteFunc(slices.Clone(s.sent), func(x sent) bool {
		sp := s.model.spends[x.request.ID]
		gone := x.first.At.UnixMicro() < now-s.keep && (sp == nil || !sp.alive(now))
		if gone {
			ids[x.request.ID] = true
			delete(s.model.canceled, x.request.ID)
			delete(s.model.known, x.request.ID)
		}
		if gone && sp != nil {
			sp.gone = true
		}
		return gone
	})
	if gone := int64(len(ids)) + s.pruneNames(now); done.Requests != gone {
		return fmt.Errorf("prune has removed %d IDs; want %d", done.Requests, gone)
	}
	s.sent = left
	return nil
}

// unneeded is the date up to which no rule has needed the entries of an account at a time.
type unneeded struct{ at, upto int64 }

// prune notes up to which date the ledger may have removed the entries of each account, and up to
// which date it must have removed them. It keeps more of them for rules that have not decided
// since.
func (m *Model) prune(rules []Rule, accounts []string, keep, now int64) {
	again := keep
	for _, list := range m.moves {
		again = max(again, now-list[0].at) // no entry is older
	}
	for _, r := range rules {
		switch r.Kind {
		case "rolling", "count":
			keep = max(keep, r.Width)
		case "day", "counted":
			keep = max(keep, 3*dayLength)
		}
	}
	for _, account := range accounts {
		upto := now - keep
		for _, s := range m.spends {
			if !s.alive(now) || !slices.Contains(s.accounts, account) {
				continue
			}
			for _, p := range s.parts {
				upto = min(upto, p.at-1)
			}
		}
		m.pruned[account] = max(m.pruned[account], upto)
		// The Prune before may have found that the entries are needed. Then it looks again after a
		// while.
		if was := m.unneeded[account]; was.at == 0 || now-was.at >= again/16 {
			m.gone[account] = max(m.gone[account], was.upto)
			m.unneeded[account] = unneeded{now, min(upto, m.last[account]-keep)}
		}
	}
}

// mayBeGone reports whether Prune may have removed entries of a date from one of the accounts.
func (m *Model) mayBeGone(accounts []string, date int64) bool {
	return slices.ContainsFunc(accounts, func(account string) bool { return date <= m.pruned[account] })
}
