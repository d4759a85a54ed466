package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
)

// The budget of the demo: a card may spend 100.00 in any 30 days, and each purchase costs 5.00.
const (
	processes = 3
	budget    = 100_00
	price     = 5_00
	purchases = 15 // which each process tries
)

func euros(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "EUR"} }

// open opens the ledger in a file, when no other process has it, and calls f.
func open(ctx context.Context, file string, f func(*spend.Budgets) error) (err error) {
	db, err := bolt.Open(file, &bolt.Options{LockTimeout: 30 * time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	l, err := boltledger.New(db, nil)
	if err != nil {
		return err
	}
	b, err := spend.New(ctx, l, spend.Budget{
		Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("month", euros(budget), 30*24*time.Hour)},
	}, nil)
	if err != nil {
		return err
	}
	return f(b)
}

// spendAll tries to buy several times, and writes the number of approved purchases.
func spendAll(ctx context.Context, file string, out io.Writer) error {
	approved := 0
	for n := range purchases {
		err := open(ctx, file, func(b *spend.Budgets) error {
			d, err := b.Charge(ctx, spend.Request{ID: fmt.Sprint(os.Getpid(), "-", n), Account: "card:7", Amount: euros(price)})
			if d.Approved {
				approved++
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out, approved)
	return err
}

// cannotOverspend has processes spend from one budget at the same time.
func cannotOverspend(ctx context.Context, self, file string) error {
	fmt.Printf("\n%d processes each try %d purchases of %v with a card that may spend\n%v in any 30 days:\n\n",
		processes, purchases, euros(price), euros(budget))
	var outs [processes]bytes.Buffer
	var cmds [processes]*exec.Cmd
	for i := range cmds {
		cmds[i] = exec.CommandContext(ctx, self, "-"+spendFlag, file)
		cmds[i].Stdout, cmds[i].Stderr = &outs[i], os.Stderr
		if err := cmds[i].Start(); err != nil {
			return err
		}
	}
	t := table.New(table.Left("PROCESS"), table.Right("APPROVED"), table.Right("DECLINED"))
	all := 0
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("a process that spends: %w", err)
		}
		var approved int
		if _, err := fmt.Fscan(&outs[i], &approved); err != nil {
			return err
		}
		all += approved
		t.Add(fmt.Sprint(i+1), fmt.Sprint(approved), fmt.Sprint(purchases-approved))
	}
	if _, err := fmt.Print(t.Text()); err != nil {
		return err
	}
	return open(ctx, file, func(b *spend.Budgets) error {
		list, err := b.Remaining(ctx, "card:7")
		if err != nil {
			return err
		}
		if used := list[0].Used.Minor; used != int64(all)*price || used != budget {
			return fmt.Errorf("%v were spent by %d approved purchases; want %v", list[0].Used, all, euros(budget))
		}
		fmt.Printf("\n%d purchases were approved: %v, and not a cent more.\n", all, list[0].Used)
		return nil
	})
}
