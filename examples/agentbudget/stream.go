package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

// Prices of the model in the unit of the budget, which is a millionth of a cent: 3 and 15 dollars
// for a million tokens.
const (
	perTokenIn  = 300
	perTokenOut = 1500
)

// holdFor is the lifetime of the hold of a call. It is short, so that the money of a call that dies
// with its process is soon free. A call that streams for longer extends its hold.
const holdFor = 30 * time.Second

// call is a call of a model that streams its answer. The model stops at mostOut tokens.
type call struct {
	name    string
	in      int64 // tokens of the prompt
	mostOut int64
	chunks  []chunk
	careful bool // extend the hold with each chunk
}

// chunk is a part of the answer, some time after the part before.
type chunk struct {
	after  time.Duration
	tokens int64
}

// calls are a scripted conversation. The second answer is cut off by the user, who pays for the
// tokens until then. The third call forgets to extend its hold. The fourth gets as many tokens as
// the budget still has, and the fifth none.
var calls = []call{
	{"summarize a paper", 18_400, 4_096, []chunk{{2 * time.Second, 610}, {20 * time.Second, 1_402}, {25 * time.Second, 733}}, true},
	{"write a letter", 950, 4_096, []chunk{{time.Second, 88}, {3 * time.Second, 41}}, true},
	{"prove a theorem", 2_200, 8_192, []chunk{{12 * time.Second, 3_001}, {26 * time.Second, 2_877}}, false},
	{"translate a book", 61_000, 32_000, []chunk{{9 * time.Second, 5_120}, {22 * time.Second, 4_096}}, true},
	{"say good night", 40, 1_000, nil, true},
}

// stream runs the calls over a small budget in memory, by a clock of its own, and prints them.
func stream(ctx context.Context, out io.Writer) error {
	now := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	l := memledger.New(&memledger.Options{Clock: func() time.Time { return now }})
	budget, err := spend.New(ctx, l, spend.Budget{
		Name: "agents", Currency: unit,
		Rules: []spend.Rule{spend.Rolling("hour", usd(45), time.Hour)},
	}, nil)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	s := &streams{budget: budget, out: out, sleep: func(d time.Duration) { now = now.Add(d) }}
	for i, c := range calls {
		if err := s.run(ctx, fmt.Sprint("call-", i+1), c); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", c.name, err), l.Close())
		}
	}
	list, err := budget.Remaining(ctx, account)
	for _, u := range list {
		fmt.Fprintf(out, "%s: %v used, %v held, %v of %v left\n", u.Rule, u.Used.Decimal(), u.Held.Decimal(), u.Remaining, u.Limit)
	}
	return errors.Join(err, budget.Verify(ctx, account), l.Close())
}

// streams settles streamed calls by their tokens.
type streams struct {
	budget *spend.Budgets
	out    io.Writer
	sleep  func(time.Duration)
}

func tokens(in, out int64) spend.Money {
	return spend.Money{Minor: in*perTokenIn + out*perTokenOut, Currency: unit}
}

// run holds the most that the call can cost, or as much as the budget still has; streams; and
// captures the cost of the tokens that came.
func (s *streams) run(ctx context.Context, id string, c call) (err error) {
	d, err := s.budget.UpTo(ctx, spend.UpToRequest{
		Request: spend.Request{ID: id, Account: account, Amount: tokens(c.in, c.mostOut), TTL: holdFor},
		Least:   tokens(c.in, min(c.mostOut, 500)), // fewer tokens are no answer
		Hold:    true,
	})
	switch {
	case err != nil:
		return err
	case !d.Approved:
		fmt.Fprintf(s.out, "%s: declined, would fit in %v\n", c.name, d.RetryAfter)
		return nil
	}
	mostOut := (d.Amount.Minor - c.in*perTokenIn) / perTokenOut
	fmt.Fprintf(s.out, "%s: %v is held for %d tokens and up to %d more\n", c.name, d.Amount, c.in, mostOut)
	came, took := int64(0), time.Duration(0)
	defer func() { err = errors.Join(err, s.finish(ctx, id, c, came, took)) }()
	for i, part := range c.chunks {
		if err := ctx.Err(); err != nil {
			return err
		}
		s.sleep(part.after)
		came, took = min(came+part.tokens, mostOut), took+part.after
		if came == mostOut {
			fmt.Fprintf(s.out, "  stopped at %d tokens\n", came)
			break
		}
		if !c.careful {
			continue
		}
		_, err := s.budget.Extend(ctx, spend.ExtendRequest{ID: fmt.Sprint(id, "/extend-", i+1), HoldID: id, TTL: holdFor})
		if err != nil {
			return err
		}
	}
	return nil
}

// finish captures the cost of the tokens that came, however the stream ended.
func (s *streams) finish(ctx context.Context, id string, c call, came int64, took time.Duration) error {
	capture := spend.CaptureRequest{ID: id + "/capture", HoldID: id, Amount: tokens(c.in, came), Final: true}
	err := endHold(ctx, func(ctx context.Context) error {
		_, err := s.budget.Capture(ctx, capture)
		if errors.Is(err, spend.ErrHoldExpired) {
			// The hold has expired, but the tokens have come and will be on the bill.
			fmt.Fprintf(s.out, "  the hold expired while it streamed\n")
			capture.Force = true
			_, err = s.budget.Capture(ctx, capture)
		}
		return err
	})
	if err == nil {
		fmt.Fprintf(s.out, "  %d tokens in %v cost %v\n", came, took, capture.Amount)
	}
	return err
}
