// Command agentbudget lets an agent call a language model and buy things within a budget that
// survives the end of the process.
//
//	go run ./examples/agentbudget -file agent.db
//	go run ./examples/agentbudget -file agent.db   # the second run sees the first
//
// The model is pretended, unless -api names one: any server that speaks Chat Completions, with its
// key in OPENAI_API_KEY.
//
// Note five things. Prices of tokens are fractions of a cent, so the budget counts in millionths of
// a cent and nothing is rounded. The calls of the model go through the client of package llmlimit,
// which holds the highest possible cost of each and charges its bill, so the agent never
// overspends.
//
// A purchase does the same by hand: the agent authorizes the highest possible cost before it, and
// captures the real cost afterwards. A failed purchase voids its hold. One that ends in any other
// way is settled, too: the agent's context may have ended, and the request is sent again while the
// ledger is away, which its ID makes safe.
//
// The hold of a purchase that dies with the process expires. The ID of each purchase contains the
// task, so that an agent that is started again repeats no payment: it asks the ledger for the
// outcome. A purchase that was begun and not ended may have been made, so it counts as its highest
// cost. A question has no such ID: who asks again is billed again.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
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
	api := flags.String("api", "", "`URL` of the model's API, such as https://api.openai.com/v1; without one, it is pretended")
	model := flags.String("model", "large", "`name` of the model")
	if err := flags.Parse(args); err != nil {
		return err
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
	a := newAgent(budget, *task, out)
	if *api != "" {
		a.api, a.model, a.key = *api, *model, os.Getenv("OPENAI_API_KEY")
		a.calls = calls(budget, nil)
	}
	for i, s := range steps {
		if err := a.step(ctx, i, s); err != nil {
			return err
		}
	}
	return a.report(ctx)
}

// unit is the currency of the budget: dollars with 8 decimal places. Amounts in cents are exact in
// it.
const unit = "USD:8"

func usd(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "USD"} }

// step is an action that costs money: a question to the model, or a purchase, whose cost is known
// when it is done.
type step struct {
	name  string
	ask   string // a question; "" is a purchase
	most  int64  // cents of a purchase
	costs int64  // cents
	fails bool
}

// steps stand for the decisions of the agent.
var steps = []step{
	{name: "plan", ask: "Which reports on leaky buckets are worth their price?"},
	{name: "search the web", most: 5, costs: 2},
	{name: "buy a report", most: 90, fails: true},
	{name: "buy a license", most: 250, costs: 250},
	{name: "summarize", ask: "Summarize the results of the search in five lines."},
}

// errFailed is the error of a purchase that has failed for certain, and costs nothing.
var errFailed = errors.New("failed")

// pretend makes a purchase and returns its cost in cents.
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

	api, model, key string
	calls           *http.Client // of the model
}

// newAgent returns an agent whose model and purchases are pretended.
func newAgent(b *spend.Budgets, task string, out io.Writer) *agent {
	return &agent{budget: b, task: task, out: out, do: pretend, api: "http://model.invalid", model: "large", calls: calls(b, pretended{})}
}

const account = "agent:researcher"

// step takes a step.
func (a *agent) step(ctx context.Context, n int, s step) error {
	if s.ask != "" {
		return a.question(ctx, s)
	}
	return a.take(ctx, n, s)
}

// take makes a purchase if the budget has room for its highest possible cost.
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
	cost, failed := usd(s.most), false // until the purchase has said what it has cost, also if it panics
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

// before tells the outcome of a purchase in an earlier run of the task. One process has the file
// open at a time, so that run is over.
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

// capture ends the hold of a purchase that costs something, also after the hold has expired.
func (a *agent) capture(ctx context.Context, id string, cost spend.Money) error {
	return endHold(ctx, func(ctx context.Context) error {
		_, err := a.budget.Capture(ctx,
			spend.CaptureRequest{ID: id + "/capture", HoldID: id, Amount: cost, Final: true, Force: true})
		return err
	})
}

// void ends the hold of a purchase that costs nothing.
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
