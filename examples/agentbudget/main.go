// Command agentbudget lets an agent that buys things by itself do so within a budget that survives it.
//
//	go run ./examples/agentbudget -file agent.db
//	go run ./examples/agentbudget -file agent.db   # and again: what was spent is still spent
//
// Look at three things. The agent authorizes the most that a step can cost before it takes the step, and captures what it has
// cost: it cannot overspend by finding out afterwards. A step that fails gives its hold back, and one that dies with its
// process gives it back by itself when the hold expires. And each step has an ID of the task's, so that an agent that is
// started again repeats no payment.
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
	task := flags.String("task", fmt.Sprint("task-", time.Now().Unix()), "name of the task; one that is repeated repeats no payment")
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
	budget, err := spend.New(l, spend.Budget{
		Name: "agents", Currency: "USD",
		Rules: []spend.Rule{
			spend.Calendar("day", usd(5_00), spend.Day, time.UTC),
			spend.PerTransaction("step", usd(1_00)),
			spend.Lifetime("project", usd(100_00)),
			spend.Count("pace", 30, time.Minute),
		},
	}, &spend.Options{HoldTTL: 10 * time.Minute}) // no step takes longer
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

func usd(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "USD"} }

// step is something that costs money; how much shows when it is done.
type step struct {
	what  string
	most  int64 // cents
	costs int64
	fails bool
}

// steps stand for what the agent decides to do.
var steps = []step{
	{what: "ask the large model", most: 80, costs: 47},
	{what: "search the web", most: 5, costs: 2},
	{what: "buy a report", most: 90, fails: true},
	{what: "buy a license", most: 250, costs: 250},
	{what: "ask the small model", most: 10, costs: 3},
}

type agent struct {
	budget *spend.Budgets
	task   string
	out    io.Writer
}

const account = "agent:researcher"

// take takes a step if the budget has room for the most that it can cost.
func (a *agent) take(ctx context.Context, n int, s step) error {
	id := fmt.Sprintf("%s/%d", a.task, n)
	d, err := a.budget.Authorize(ctx, spend.Request{ID: id, Account: account, Amount: usd(s.most), Tags: map[string]string{"what": s.what}})
	switch {
	case err != nil:
		return fmt.Errorf("the budget cannot be asked, so nothing is bought: %w", err)
	case !d.Approved:
		for _, x := range d.Declines {
			fmt.Fprintf(a.out, "%s: declined by %s, which has %v left of %v\n", s.what, x.Rule, x.Remaining, x.Limit)
		}
		return nil
	case d.Replayed:
		fmt.Fprintf(a.out, "%s: paid for already\n", s.what)
		return nil
	}
	if s.fails {
		fmt.Fprintf(a.out, "%s: failed, and costs nothing\n", s.what)
		_, err = a.budget.Void(ctx, spend.VoidRequest{ID: id + "/void", HoldID: id})
		return err
	}
	fmt.Fprintf(a.out, "%s: %v of at most %v\n", s.what, usd(s.costs), usd(s.most))
	_, err = a.budget.Capture(ctx, spend.CaptureRequest{ID: id + "/capture", HoldID: id, Amount: usd(s.costs), Final: true})
	return err
}

func (a *agent) report(ctx context.Context) error {
	list, err := a.budget.Remaining(ctx, account)
	for _, u := range list {
		fmt.Fprintf(a.out, "%s: %v of %v left\n", u.Rule, u.Remaining, u.Limit)
	}
	return err
}
