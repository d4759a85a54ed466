package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/spend"
)

// spendChargeCommand returns the command charge, authorize, record, credit, upto or able. They take
// the same arguments.
func (a *app) spendChargeCommand(f *spendFlags, kind string) *cobra.Command {
	var (
		tags, also []string
		varying    []string
		ttl        duration.Value
		least      string
		dated      string
		fate       expiryFlag
		hold       bool
		forced     bool
	)
	done := map[string]string{
		"charge": "charged", "authorize": "authorized", "record": "recorded", "credit": "credited", "able": "able", "upto": "approved",
	}[kind]
	cmd := newCommand("spend/" + kind)
	if kind != "able" {
		f.addID(cmd)
		cmd.Flags().StringArrayVar(&varying, "varying", nil,
			"the name of a tag that may differ when the request is sent again, like trace; may be repeated")
	}
	cmd.Flags().StringArrayVar(&tags, "tag", nil,
		"a tag that rules can filter by, like category=travel; may be repeated")
	cmd.Flags().StringArrayVar(&also, "also", nil,
		"another account to charge together with ACCOUNT, written BUDGET/ACCOUNT; may be repeated")
	if kind == "upto" {
		cmd.Flags().StringVar(&least, "least", "", "the smallest amount to take (default: AMOUNT)")
		cmd.Flags().BoolVar(&hold, "hold", false, "hold the amount, instead of charging it")
	}
	if kind == "authorize" || kind == "upto" {
		cmd.Flags().Var(&ttl, "ttl", "how long the hold lasts, like 90s, 24h or 7d (default: 7d)")
		cmd.Flags().Lookup("ttl").DefValue = ""
		fate.add(cmd)
	}
	if kind == "authorize" {
		cmd.Flags().BoolVar(&forced, "force", false, "hold the amount whatever the rules say, because somebody else has authorized it")
	}
	if kind == "authorize" || kind == "record" {
		cmd.Flags().StringVar(&dated, "dated", "", "the date at which the money counts, like 2026-12-04T18:00:00Z (default: now)")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			r := spend.Request{ID: f.requestID(), Account: args[0], Varying: varying, TTL: ttl.Std(), OnExpiry: fate.Expiry, Forced: forced}
			if kind == "able" {
				r.ID = args[0] // a question has no ID
			}
			var err error
			switch {
			case dated == "":
			case kind == "authorize" && !forced:
				return usagef("--dated needs --force: a request that rules decide counts from now on")
			default:
				if r.Dated, err = time.Parse(time.RFC3339, dated); err != nil {
					return usagef("--dated is %.40q; write it like 2026-12-04T18:00:00Z", dated)
				}
			}
			if r.Amount, err = spend.ParseMoney(args[1], b.Currency()); err != nil {
				return err
			}
			if r.Tags, err = parseTags(tags); err != nil {
				return err
			}
			for _, s := range also {
				budget, name, ok := strings.Cut(s, "/")
				if !ok {
					return usagef("--also is written BUDGET/ACCOUNT")
				}
				r.Also = append(r.Also, spend.Account{Budget: budget, Name: name})
			}
			upTo := func(ctx context.Context, r spend.Request) (spend.Decision, error) {
				u := spend.UpToRequest{Request: r, Least: r.Amount, Hold: hold}
				if least != "" {
					var err error
					if u.Least, err = spend.ParseMoney(least, r.Amount.Currency); err != nil {
						return spend.Decision{}, err
					}
				}
				return b.UpTo(ctx, u)
			}
			call := map[string]func(context.Context, spend.Request) (spend.Decision, error){
				"charge": b.Charge, "authorize": b.Authorize, "record": b.Record, "credit": b.Credit, "upto": upTo, "able": b.AbleToAccept,
			}[kind]
			d, err := call(cmd.Context(), r)
			if err != nil {
				return err
			}
			return a.answerSpend(r.ID, d, done)
		})
	}
	return cmd
}

// expiryFlag is the value of --on-expiry.
type expiryFlag struct{ spend.Expiry }

var expiries = []string{"", "release", "spend"} // by spend.Expiry

func (f *expiryFlag) String() string { return expiries[f.Expiry] }
func (f *expiryFlag) Type() string   { return "release|spend" }

func (f *expiryFlag) Set(s string) error {
	i := slices.Index(expiries, s)
	if i < 1 {
		return errors.New("it is release or spend")
	}
	f.Expiry = spend.Expiry(i)
	return nil
}

func (f *expiryFlag) add(cmd *cobra.Command) {
	cmd.Flags().Var(f, "on-expiry", "the fate of the money if the hold expires: release gives it back, spend makes it used")
}

// parseTags reads the values of --tag.
func parseTags(list []string) (map[string]string, error) {
	var tags map[string]string
	for _, s := range list {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, usagef("--tag is written like category=travel")
		}
		if _, twice := tags[name]; twice {
			return nil, usagef("--tag %s is given twice", name)
		}
		if tags == nil {
			tags = make(map[string]string)
		}
		tags[name] = value
	}
	return tags, nil
}

// followUp is a request about an earlier request.
type followUp struct {
	id      string      // of this request
	earlier string      // the ID of the earlier request
	amount  spend.Money // 0 if the command has no AMOUNT
}

// followUp returns the action of a command whose arguments are the ID of an earlier request and,
// of some commands, AMOUNT. done is the word for an approved decision.
func (a *app) followUp(
	f *spendFlags, done string, decide func(context.Context, *spend.Budgets, followUp) (spend.Decision, error),
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) (err error) {
			r := followUp{id: f.requestID(), earlier: args[0]}
			if len(args) > 1 {
				if r.amount, err = spend.ParseMoney(args[1], b.Currency()); err != nil {
					return err
				}
			}
			d, err := decide(cmd.Context(), b, r)
			if err != nil {
				return err
			}
			return a.answerSpend(r.id, d, done)
		})
	}
}

func (a *app) spendCaptureCommand(f *spendFlags) *cobra.Command {
	var final, force bool
	cmd := newCommand("spend/capture")
	f.addID(cmd)
	cmd.Flags().BoolVar(&final, "final", false, "release the rest of the hold")
	cmd.Flags().BoolVar(&force, "force", false,
		"take more than the hold has, or from a hold that has ended, because the money has left already")
	capture := func(ctx context.Context, b *spend.Budgets, r followUp) (spend.Decision, error) {
		return b.Capture(ctx, spend.CaptureRequest{
			ID: r.id, HoldID: r.earlier, Amount: r.amount, Final: final, Force: force,
		})
	}
	cmd.RunE = a.followUp(f, "captured", capture)
	return cmd
}

func (a *app) spendVoidCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/void")
	f.addID(cmd)
	void := func(ctx context.Context, b *spend.Budgets, r followUp) (spend.Decision, error) {
		return b.Void(ctx, spend.VoidRequest{ID: r.id, HoldID: r.earlier})
	}
	cmd.RunE = a.followUp(f, "voided", void)
	return cmd
}

func (a *app) spendCancelCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/cancel")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return a.withBudget(cmd.Context(), f, func(b *spend.Budgets) error {
			d, err := b.Cancel(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return a.answerSpend(args[0], d, "canceled")
		})
	}
	return cmd
}

func (a *app) spendRefundCommand(f *spendFlags) *cobra.Command {
	var force bool
	cmd := newCommand("spend/refund")
	f.addID(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "give back more than was captured; the rest counts as a credit")
	refund := func(ctx context.Context, b *spend.Budgets, r followUp) (spend.Decision, error) {
		return b.Refund(ctx, spend.RefundRequest{ID: r.id, SpendID: r.earlier, Amount: r.amount, Force: force})
	}
	cmd.RunE = a.followUp(f, "refunded", refund)
	return cmd
}

func (a *app) spendReverseCommand(f *spendFlags) *cobra.Command {
	cmd := newCommand("spend/reverse")
	f.addID(cmd)
	cmd.RunE = a.followUp(f, "reversed", func(ctx context.Context, b *spend.Budgets, r followUp) (spend.Decision, error) {
		return b.ReverseRefund(ctx, spend.ReverseRequest{ID: r.id, SpendID: r.earlier, Amount: r.amount})
	})
	return cmd
}
