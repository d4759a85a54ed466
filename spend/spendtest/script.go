package spendtest

import (
	"errors"
	"slices"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

// step is a part of the script of a case.
type step interface{ do(s *fixture) }

// check is a step that is no single request.
type check func(s *fixture)

func (f check) do(s *fixture) { f(s) }

// call is a request with the answer that it must get: an approval, unless no or fails says
// otherwise. Its IDs are names in the script.
type call struct {
	Request
	back    time.Duration // from now to the date
	want    error
	refused []string
	crossed []string
	wait    time.Duration
	replay  bool
	dead    bool // the ID is canceled
}

func on(method string, n int64) call {
	return call{Request: Request{Method: method, Account: "card", Amount: money(n)}}
}

func charge(n int64) call               { return on("charge", n) }
func authorize(id string, n int64) call { return on("authorize", n).as(id) }
func record(n int64) call               { return on("record", n) }
func credit(n int64) call               { return on("credit", n) }
func able(n int64) call                 { return on("able", n) }
func upTo(n int64) call                 { return on("upTo", n) }

func increase(of string, n int64) call { return on("increase", n).about(of) }
func decrease(of string, n int64) call { return on("decrease", n).about(of) }
func capture(of string, n int64) call  { return on("capture", n).about(of) }
func refund(of string, n int64) call   { return on("refund", n).about(of) }
func reverse(of string, n int64) call  { return on("reverse", n).about(of) }
func void(of string) call              { return on("void", 0).about(of) }

func cancel(id string) call { return on("cancel", 0).as(id) }

func freeze(reason string) call {
	c := on("freeze", 0)
	c.Reason = reason
	return c
}

func mend(reason string) call {
	c := on("mend", 0)
	c.Reason = reason
	return c
}

func move(to string) call {
	c := on("move", 0)
	c.To, c.Reason = to, "replaced"
	return c
}

func plan(name string) call {
	c := on("plan", 0)
	c.Plan = name
	return c
}

func limit(limits ...spend.RuleLimit) call {
	c := on("limit", 0)
	c.Limits = limits
	return c
}

// These methods change the request.

func (c call) as(id string) call              { c.ID = id; return c }
func (c call) about(of string) call           { c.Of = of; return c }
func (c call) to(account string) call         { c.Account = account; return c }
func (c call) paid(m spend.Money) call        { c.Amount = m; return c }
func (c call) down(least spend.Money) call    { c.Least = least; return c }
func (c call) lasting(d time.Duration) call   { c.TTL = d; return c }
func (c call) ago(d time.Duration) call       { c.back = d; return c }
func (c call) spent() call                    { c.OnExpiry = spend.SpendOnExpiry; return c }
func (c call) released() call                 { c.OnExpiry = spend.ReleaseOnExpiry; return c }
func (c call) last() call                     { c.Final = true; return c }
func (c call) forced() call                   { c.Force = true; return c }
func (c call) and(also ...spend.Account) call { c.Also = also; return c }

func (c call) varying(tags ...string) call { c.Request.Varying = tags; return c }

// with adds tags, by names and values.
func (c call) with(tags ...string) call {
	c.Tags = make(map[string]string)
	for pair := range slices.Chunk(tags, 2) {
		c.Tags[pair[0]] = pair[1]
	}
	return c
}

// These methods set the expected answer.

func (c call) fails(err error) call   { c.want = err; return c }
func (c call) again() call            { c.replay = true; return c }
func (c call) tells(s ...string) call { c.crossed = s; return c }
func (c call) canceled() call         { c.replay, c.dead = true, true; return c }
func (c call) no(wait time.Duration, rules ...string) call {
	c.wait, c.refused = wait, rules
	return c
}

func (c call) do(s *fixture) { s.Helper(); c.decide(s) }

// in returns the request in a case, with the IDs for which its names stand.
func (c call) in(s *fixture) Request {
	r := c.Request
	r.ID = s.named(r.ID)
	if r.Of != "" {
		r.Of = s.named(r.Of)
	}
	if c.back != 0 {
		r.Dated = s.clock.now().Add(-c.back)
	}
	return r
}

// decide sends the request and compares the answer, which it returns.
func (c call) decide(s *fixture) spend.Decision {
	s.Helper()
	d, err := c.in(s).Send(ctx, s.b)
	if !errors.Is(err, c.want) {
		s.Fatalf("%s %s of %v: error %v; want %v", c.Method, c.ID, c.Amount, err, c.want)
	}
	var refused []string
	for _, x := range d.Declines {
		refused = append(refused, x.Rule)
	}
	if c.dead {
		if d.Approved || !d.Canceled || !d.Replayed || d.RetryAfter < store.Never || d.Amount != (spend.Money{}) ||
			!slices.Equal(refused, c.refused) {
			s.Fatalf("%s %s of %v: %+v, %v; want a decline of a canceled ID, which %q had refused", c.Method, c.ID, c.Amount, d, err, c.refused)
		}
		return d
	}
	if c.want == nil && (d.Approved != (c.refused == nil) || d.Replayed != c.replay || d.RetryAfter != c.wait ||
		!slices.Equal(refused, c.refused)) {
		s.Fatalf("%s %s of %v: %+v; want that %q refuse, RetryAfter %v, and replayed is %v",
			c.Method, c.ID, c.Amount, d, c.refused, c.wait, c.replay)
	}
	if got := crossed(d); !slices.Equal(got, c.crossed) {
		s.Fatalf("%s %s of %v: it tells the shares %q; want %q", c.Method, c.ID, c.Amount, got, c.crossed)
	}
	return d
}

func after(d time.Duration) check { return func(s *fixture) { s.clock.us.Add(d.Microseconds()) } }

// at sets the clock to that time after 1970.
func at(d time.Duration) check { return func(s *fixture) { s.clock.us.Store(d.Microseconds()) } }

// by lets the budgets of that name decide from here on. If the case has rules of that name, they
// are in force then, as a new revision.
func by(name string) check {
	return func(s *fixture) {
		s.Helper()
		if b := s.processes[name]; b != nil {
			s.b = b
		}
		if s.c.others == nil || s.revision == name {
			return
		}
		s.revision, s.revisions = name, s.revisions+1
		if err := s.b.SetRules(ctx, s.rules(), nil); err != nil {
			s.Fatal(err)
		}
	}
}

// shows wants these figures of the named rule, or of the first one.
func shows(used, held, remaining int64, rule ...string) check {
	return func(s *fixture) { s.Helper(); s.shows(used, held, remaining, rule...) }
}

// tries asks for an amount of the first rule, which fits after a time, or at the earliest then.
func tries(n int64, after time.Duration, atLeast bool) check {
	return func(s *fixture) {
		s.Helper()
		d, err := able(n).in(s).Send(ctx, s.b)
		if err != nil || d.Approved || d.RetryAfter != after || d.AtLeast != atLeast {
			s.Errorf("%d: %+v, %v; want RetryAfter %v, and AtLeast is %t", n, d, err, after, atLeast)
		}
	}
}

// grows wants that more remains of the first rule after a time.
func grows(after time.Duration) check {
	return func(s *fixture) {
		s.Helper()
		list, err := s.b.Remaining(ctx, "card")
		if want := s.clock.now().Add(after); err != nil || !list[0].GrowsAt.Equal(want) {
			s.Errorf("%+v, %v; want that it grows at %v", list, err, want)
		}
	}
}

// hasPlan wants that the card has that plan.
func hasPlan(want string) check {
	return func(s *fixture) {
		if got, err := s.b.Plan(ctx, "card"); err != nil || got != want {
			s.Errorf("the plan is %q, %v; want %q", got, err, want)
		}
	}
}

// sound verifies the card, and wants that many entries.
func sound(entries int) check {
	return func(s *fixture) {
		s.Helper()
		if err := s.b.Verify(ctx, "card"); err != nil {
			s.Error(err)
		}
		if n := len(s.history(nil)); n != entries {
			s.Errorf("the account has %d entries; want %d", n, entries)
		}
	}
}

// prune prunes, and wants that so many holds and IDs were removed.
func prune(expired, requests int64) check {
	return func(s *fixture) {
		s.Helper()
		want := spend.PruneResult{Expired: expired, Requests: requests}
		done, err := s.b.Prune(ctx)
		if d := differ.Fields(done, want); err != nil || d != "" {
			s.Errorf("Prune, error %v:\n%s", err, d)
		}
	}
}
