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
// Note four things. Prices of tokens are fractions of a cent, so the budget counts in millionths of a
// cent and nothing is rounded. Before each step the agent authorizes the highest possible cost, and
// afterwards it captures the real cost, so it never overspends. A failed step voids its hold. The
// hold of a step that dies with the process expires. The ID of each step contains the task, so
// that an agent that is started again repeats no payment.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
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
	task := flags.String("task", fmt.Sprint("task-", time.Now().Unix()),
		"name of the task; a second run of a task repeats no payment")
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
	budget, err := spend.New(l, spend.Budget{
		Name: "agents", Currency: unit,
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
	a := &agent{budget: budget, task: *task, out: out}
	for i, s := range steps {
		if err := a.take(ctx, i, s); err != nil {
			return err
		}
	}
	return a.report(ctx)
}

// unit is the currency of the budget: dollars with 8 decimal places. Amounts in cents are exact in it.
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

// agent takes the steps of a task.
type agent struct {
	budget *spend.Budgets
	task   string
	out    io.Writer
}

const account = "agent:researcher"

// take takes a step if the budget has room for its highest possible cost.
func (a *agent) take(ctx context.Context, n int, s step) error {
	id := fmt.Sprintf("%s/%d", a.task, n)
	d, err := a.budget.Authorize(ctx,
		spend.Request{ID: id, Account: account, Amount: usd(s.most), Tags: map[string]string{"step": s.name}})
	switch {
	case err != nil:
		return fmt.Errorf("the budget gives no answer, so the agent buys nothing: %w", err)
	case !d.Approved:
		for _, x := range d.Declines {
			fmt.Fprintf(a.out, "%s: declined by %s, which has %v left of %v\n", s.name, x.Rule, x.Remaining, x.Limit)
		}
		return nil
	case d.Replayed:
		fmt.Fprintf(a.out, "%s: paid for already\n", s.name)
		return nil
	}
	if s.fails {
		fmt.Fprintf(a.out, "%s: failed, and costs nothing\n", s.name)
		_, err = a.budget.Void(ctx, spend.VoidRequest{ID: id + "/void", HoldID: id})
		return err
	}
	fmt.Fprintf(a.out, "%s: %v of at most %v\n", s.name, usd(s.costs), usd(s.most))
	_, err = a.budget.Capture(ctx,
		spend.CaptureRequest{ID: id + "/capture", HoldID: id, Amount: usd(s.costs), Final: true})
	return err
}

// report prints the remaining amount of each rule.
func (a *agent) report(ctx context.Context) error {
	list, err := a.budget.Remaining(ctx, account)
	for _, u := range list {
		fmt.Fprintf(a.out, "%s: %v of %v left\n", u.Rule, u.Remaining, u.Limit)
	}
	return err
}
