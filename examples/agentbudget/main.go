// Command agentbudget lets an agent buy things within a budget that survives the end of the
// process.
//
//	go run ./examples/agentbudget -file agent.db
//	go run ./examples/agentbudget -file agent.db   # the second run sees the first
//
// It also settles calls that stream their answers, by the token. This runs a script in memory:
//
//	go run ./examples/agentbudget -stream
//
// Note five things. Prices of tokens are fractions of a cent, so the budget counts in millionths of
// a cent and nothing is rounded. Before each step the agent authorizes the highest possible cost,
// and afterwards it captures the real cost, so it never overspends. A failed step voids its hold. A
// step that ends in any other way is settled, too: the agent's context may have ended, and the
// request is sent again while the ledger is away, which its ID makes safe.
//
// The hold of a step that dies with the process expires. The ID of each step contains the task, so
// that an agent that is started again repeats no payment: it asks the ledger for the outcome of the
// step. A step that was begun and not ended may have been done, so it counts as its highest cost.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/store"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "agentbudget:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("agentbudget", flag.ContinueOnError)
	path := flags.String("file", "agent.db", "bbolt `file` that keeps the budget")
	task := flags.String("task", "task-"+rand.Text(), "name of the task; a second run of a task repeats no payment")
	streamed := flags.Bool("stream", false, "run scripted calls that stream their answers, in memory, and print them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *streamed {
		return stream(ctx, out)
	}
	db, err := bolt.Open(*path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	l, err := boltledger.New(db, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	budget, err := spend.New(ctx, l, spend.Budget{
		Name: "agents", Currency: unit,
		Revision: 1, // raise it with each change of the rules
		Rules: []spend.Rule{
			spend.Calendar("day", usd(5_00), spend.Day, time.UTC),
			spend.PerTransaction("step", usd(1_00)),
			spend.Lifetime("project", usd(100_00)),
			spend.Count("pace", 30, time.Minute),
		},
	}, &spend.Options{HoldTTL: 10 * time.Minute}) // a step takes less time
	if err != nil {
		return err
	}
	a := &agent{budget: budget, task: *task, out: out, do: pretend}
	for i, s := range steps {
		if err := a.take(ctx, i, s); err != nil {
			return err
		}
	}
	return a.report(ctx)
}

// unit is the currency of the budget: dollars with 8 decimal places. Amounts in cents are exact in
// it.
const unit = "USD:8"

func usd(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "USD"} }

// step is an action that costs money. Its cost is known when it is done.
type step struct {
	name  string
	most  int64 // cents
	costs int64 // cents
	fails bool
}

// steps stand for the decisions of the agent.
var steps = []step{
	{name: "ask the large model", most: 80, costs: 47},
	{name: "search the web", most: 5, costs: 2},
	{name: "buy a report", most: 90, fails: true},
	{name: "buy a license", most: 250, costs: 250},
	{name: "ask the small model", most: 10, costs: 3},
}

// errFailed is the error of a step that has failed for certain, and costs nothing.
var errFailed = errors.New("failed")

// pretend takes a step and returns its cost in cents.
func pretend(_ context.Context, s step) (cost int64, err error) {
	if s.fails {
		return 0, errFailed
	}
	return s.costs, nil
}

// agent takes the steps of a task.
type agent struct {
	budget *spend.Budgets
	task   string
	out    io.Writer
	do     func(context.Context, step) (cost int64, err error)
}

const account = "agent:researcher"

// take takes a step if the budget has room for its highest possible cost.
func (a *agent) take(ctx context.Context, n int, s step) (err error) {
	id := fmt.Sprintf("%s/%d", a.task, n)
	d, err := a.budget.Authorize(ctx,
		spend.Request{ID: id, Account: account, Amount: usd(s.most), Tags: map[string]string{"step": s.name}})
	switch {
	case errors.Is(err, store.ErrUnknownOutcome): // there may be a hold
		if e := a.void(ctx, id); !errors.Is(e, spend.ErrUnknownSpend) {
			err = errors.Join(err, e)
		}
		fallthrough
	case err != nil:
		return fmt.Errorf("the budget gives no answer, so the agent buys nothing: %w", err)
	case !d.Approved:
		for _, x := range d.Declines {
			fmt.Fprintf(a.out, "%s: declined by %s, which has %v left of %v\n", s.name, x.Rule, x.Remaining, x.Limit)
		}
		return nil
	case d.Replayed:
		return a.before(ctx, id, s)
	}
	cost, failed := usd(s.most), false // until the step has said what it has cost, also if it panics
	defer func() {
		if failed {
			err = a.void(ctx, id)
			return
		}
		err = errors.Join(err, a.capture(ctx, id, cost))
	}()
	cents, err := a.do(ctx, s)
	switch {
	case errors.Is(err, errFailed):
		failed = true
		fmt.Fprintf(a.out, "%s: failed, and costs nothing\n", s.name)
	case err != nil:
		return fmt.Errorf("%s may have been done, and counts as %v: %w", s.name, cost, err)
	default:
		cost = usd(cents)
		fmt.Fprintf(a.out, "%s: %v of at most %v\n", s.name, cost, usd(s.most))
	}
	return nil
}

// before tells the outcome of a step in an earlier run of the task. One process has the file open
// at a time, so that run is over.
func (a *agent) before(ctx context.Context, id string, s step) error {
	known, err := a.budget.Get(ctx, id)
	if err != nil {
		return err
	}
	switch sp := known.Spend; {
	case sp.State == "captured", sp.Captured.Minor > 0: // the hold may have expired before the capture
		fmt.Fprintf(a.out, "%s: paid for already, %v\n", s.name, sp.Captured)
		return nil
	case sp.State == "voided":
		fmt.Fprintf(a.out, "%s: failed in an earlier run, and cost nothing\n", s.name)
		return nil
	}
	fmt.Fprintf(a.out, "%s: begun in an earlier run, which did not end it; counts as %v\n", s.name, usd(s.most))
	return a.capture(ctx, id, usd(s.most))
}

// capture ends the hold of a step that costs something, also after the hold has expired.
func (a *agent) capture(ctx context.Context, id string, cost spend.Money) error {
	return endHold(ctx, func(ctx context.Context) error {
		_, err := a.budget.Capture(ctx,
			spend.CaptureRequest{ID: id + "/capture", HoldID: id, Amount: cost, Final: true, Force: true})
		return err
	})
}

// void ends the hold of a step that costs nothing.
func (a *agent) void(ctx context.Context, id string) error {
	return endHold(ctx, func(ctx context.Context) error {
		_, err := a.budget.Void(ctx, spend.VoidRequest{ID: id + "/void", HoldID: id})
		if errors.Is(err, spend.ErrHoldExpired) { // nothing is held any more
			return nil
		}
		return err
	})
}

// endHold sends the request that ends a hold, whether the caller's context has ended or not. It
// sends the request again while the ledger is away.
func endHold(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	for {
		err := send(ctx)
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnknownOutcome) {
			return err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return err
		}
	}
}

// report prints the remaining amount of each rule.
func (a *agent) report(ctx context.Context) error {
	list, err := a.budget.Remaining(ctx, account)
	for _, u := range list {
		fmt.Fprintf(a.out, "%s: %v of %v left\n", u.Rule, u.Remaining, u.Limit)
	}
	return err
}
