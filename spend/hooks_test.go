package spend_test

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// heard writes the events of hooks as lines.
type heard struct{ lines []string }

func (h *heard) add(format string, args ...any) {
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

func (h *heard) hooks() spend.Hooks {
	type started struct{}
	return spend.Hooks{
		Start: func(ctx context.Context, c spend.Call) context.Context {
			return context.WithValue(ctx, started{}, c)
		},
		Decision: func(_ context.Context, c spend.Call, d spend.Decision) {
			rules := ""
			for _, x := range d.Declines {
				rules += " " + cmp.Or(x.Rule, "frozen: "+x.Frozen)
			}
			h.add("%s of %s: %s%s", c.Method, c.Budget, d.Label(), rules)
		},
		Hold: func(_ context.Context, c spend.Call, x spend.Hold) {
			h.add("%s: %s %v, expired is %t", c.Method, x.Budget, x.Amount, x.Expired)
		},
		End: func(ctx context.Context, c spend.Call, o spend.Outcome) {
			if ctx.Value(started{}) != c {
				h.add("the context is not that of Start")
			}
			h.add("%s: %s after %v", c.Method, o.Label(), o.Took)
			if o.Ahead != 0 {
				h.add("%s: an account is ahead by %v", c.Method, o.Ahead)
			}
		},
	}
}

// take returns the lines since the last call.
func (h *heard) take() []string {
	lines := h.lines
	h.lines = nil
	return lines
}

func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h heard
		eur := func(cents int64) spend.Money { return spend.Money{Minor: cents, Currency: "EUR"} }
		var ahead time.Duration // of the clock
		b, err := spend.New(t.Context(), memledger.New(&memledger.Options{Clock: func() time.Time { return time.Now().Add(ahead) }}), spend.Budget{
			Name: "cards", Currency: "EUR",
			Rules: []spend.Rule{spend.Rolling("day", eur(100_00), 24*time.Hour), spend.PerTransaction("single", eur(60_00))},
		}, &spend.Options{Hooks: []spend.Hooks{{}, h.hooks()}, HoldTTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		request := func(id string, cents int64) spend.Request {
			return spend.Request{ID: id, Account: "card", Amount: eur(cents)}
		}
		ctx := t.Context()
		hears := func(want ...string) {
			t.Helper()
			if got := h.take(); !slices.Equal(got, want) {
				t.Errorf("got %q; want %q", got, want)
			}
		}
		approve(t)(b.Charge(ctx, request("1", 50_00)))
		hears("charge of cards: approved", "charge: ok after 0s")
		approve(t)(b.Charge(ctx, request("1", 50_00)))
		hears("charge of cards: replayed", "charge: ok after 0s")
		_, _ = b.Charge(ctx, request("2", 55_00))
		hears("charge of cards: declined day", "charge: ok after 0s")
		_, _ = b.Charge(ctx, request("3", 61_00))
		hears("charge of cards: never day single", "charge: ok after 0s")
		approve(t)(b.Authorize(ctx, request("4", 10_00)))
		hears("authorize of cards: approved", "authorize: cards 10.00 EUR, expired is false", "authorize: ok after 0s")
		approve(t)(b.UpTo(ctx, spend.UpToRequest{Request: request("5", 90_00), Least: eur(1), Hold: true}))
		hears("up_to of cards: approved", "up_to: cards 40.00 EUR, expired is false", "up_to: ok after 0s")
		time.Sleep(2 * time.Hour)
		approve(t)(b.Charge(ctx, request("6", 1_00)))
		hears("charge of cards: approved", "charge: cards 10.00 EUR, expired is true",
			"charge: cards 40.00 EUR, expired is true", "charge: ok after 0s")

		approve(t)(b.Authorize(ctx, request("7", 2_00)))
		hears("authorize of cards: approved", "authorize: cards 2.00 EUR, expired is false", "authorize: ok after 0s")
		time.Sleep(2 * time.Hour)
		_, _ = b.Prune(ctx)
		hears("prune: cards 2.00 EUR, expired is true", "prune: ok after 0s")

		freeze := spend.FreezeRequest{ID: "8", Account: "card", Reason: "lost"}
		approve(t)(b.Freeze(ctx, freeze))
		hears("freeze of cards: approved", "freeze: ok after 0s")
		forced := request("stand-in", 70_00)
		forced.Forced = true
		approve(t)(b.Authorize(ctx, forced))
		hears("authorize_forced of cards: approved", "authorize_forced: cards 70.00 EUR, expired is false",
			"authorize_forced: ok after 0s")
		b.ChargeAll(ctx, []spend.Request{request("9", 1_00), request("10", 0), request("1", 50_00)})
		hears("charge_all of cards: never frozen: lost day", "charge_all of cards: replayed", "charge_all: invalid after 0s")
		freeze.ID = "unfreeze"
		approve(t)(b.Unfreeze(ctx, freeze))
		hears("unfreeze of cards: approved", "unfreeze: ok after 0s")

		limits := []spend.RuleLimit{{Rule: "day", Amount: eur(99_00)}}
		approve(t)(b.SetLimits(ctx, spend.LimitsRequest{ID: "limits", Account: "card", Limits: limits}))
		hears("set_limits of cards: approved", "set_limits: ok after 0s")
		approve(t)(b.Extend(ctx, spend.ExtendRequest{ID: "extend", HoldID: "stand-in", TTL: 2 * time.Hour}))
		hears("extend of cards: approved", "extend: ok after 0s")
		_, _ = b.ReverseRefund(ctx, spend.ReverseRequest{ID: "reverse", SpendID: "1", Amount: eur(1)})
		hears("reverse_refund: invalid after 0s")
		approve(t)(b.Cancel(ctx, "stand-in", "card"))
		hears("cancel of cards: approved", "cancel: ok after 0s")
		_, _ = b.Charge(ctx, request("stand-in", 70_00))
		hears("charge of cards: replayed", "charge: ok after 0s")
		_ = b.SetRules(ctx, spend.Budget{Name: "cards"}, nil)
		hears("set_rules: invalid after 0s")
		for _, err := range b.Rules(ctx) {
			if err != nil {
				t.Error(err)
			}
		}
		hears("rules: ok after 0s")

		ahead = time.Hour
		approve(t)(b.Authorize(ctx, request("11", 1_00)))
		hears("authorize of cards: approved", "authorize: cards 1.00 EUR, expired is false", "authorize: ok after 0s")
		ahead = 0
		approve(t)(b.Increase(ctx, spend.IncreaseRequest{ID: "12", HoldID: "11", Amount: eur(200_00), Least: eur(1)}))
		hears("increase of cards: approved", "increase: cards 47.00 EUR, expired is false", "increase: ok after 0s",
			"increase: an account is ahead by 1h0m0s")
		approve(t)(b.Mend(ctx, spend.FreezeRequest{ID: "mend", Account: "card", Reason: "a wrong clock"}))
		hears("mend of cards: approved", "mend: ok after 0s")
		approve(t)(b.Void(ctx, spend.VoidRequest{ID: "13", HoldID: "11"}))
		hears("void of cards: approved", "void: ok after 0s")

		_, _ = b.AbleToAccept(ctx, request("", 1))
		hears("able_to_accept: ok after 0s")
		for _, err := range b.History(ctx, "card", nil) {
			if err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
			break
		}
		hears("history: ok after 1s")
	})
}

// down is a ledger without a connection.
type down struct {
	ledger.Ledger
	err error
}

func (l down) Decide(context.Context, *ledger.Job) error { return l.err }
func (l down) View(context.Context, *ledger.Job) error   { return l.err }
func (l down) DecideAll(_ context.Context, jobs []*ledger.Job) []error {
	return slices.Repeat([]error{l.err}, len(jobs))
}

func (l down) History(context.Context, string, ledger.Position, int) ([]ledger.Entry, error) {
	return nil, l.err
}

func (l down) Revisions(context.Context, string, int64, int) ([]ledger.Rules, error) {
	return nil, l.err
}

func (l down) Accounts(context.Context, string, string, int64, int) ([]string, string, error) {
	return nil, "", l.err
}

// Each failed call of a public method is one End, whatever failed.
func TestHooksHearEveryFailure(t *testing.T) {
	eur := spend.Money{Minor: 1, Currency: "EUR"}
	request := spend.Request{ID: "1", Account: "card", Amount: eur}
	right := []any{
		request,
		[]spend.Request{request, request},
		spend.UpToRequest{Request: request, Least: eur},
		spend.IncreaseRequest{ID: "1", HoldID: "2", Amount: eur},
		spend.CaptureRequest{ID: "1", HoldID: "2", Amount: eur},
		spend.DecreaseRequest{ID: "1", HoldID: "2", Amount: eur},
		spend.ExtendRequest{ID: "1", HoldID: "2"},
		spend.VoidRequest{ID: "1", HoldID: "2"},
		spend.RefundRequest{ID: "1", SpendID: "2", Amount: eur},
		spend.ReverseRequest{ID: "1", SpendID: "2", Amount: eur},
		spend.LimitsRequest{ID: "1", Account: "card", Limits: []spend.RuleLimit{{Rule: "ever", Amount: eur}}},
		spend.FreezeRequest{ID: "1", Account: "card", Reason: "lost"},
		spend.PlanRequest{ID: "1", Account: "card"},
		spend.MoveRequest{ID: "1", Account: "card", To: "other", Reason: "replaced"},
		spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("ever", eur)}, Revision: 1},
		spend.BacktestOptions{Rules: spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("ever", eur)}}},
		"card", (*spend.HistoryOptions)(nil),
		spend.Entry{},
	}
	wrong := []any{
		[]spend.Request{{}}, &spend.HistoryOptions{Limit: -1}, spend.Entry{Account: spend.Account{Budget: "none", Name: "card"}},
	}
	for _, tc := range []struct {
		name string
		err  error
		args []any // by type; the zero value for others
		want string
	}{
		{"no connection", fmt.Errorf("%w: no connection", store.ErrUnavailable), right, "failed"},
		{"lost answer", fmt.Errorf("%w: %w", store.ErrUnknownOutcome, context.Canceled), right, "unknown"},
		{"caller left", context.Canceled, right, "canceled"},
		{"too late", context.DeadlineExceeded, right, "late"},
		{"wrong request", nil, wrong, "invalid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var ends []string
			hooks := spend.Hooks{End: func(_ context.Context, c spend.Call, o spend.Outcome) {
				ends = append(ends, c.Method+": "+o.Label())
			}}
			l := memledger.New(nil)
			b, err := spend.New(t.Context(), l, spend.Budget{
				Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("ever", eur)},
			}, &spend.Options{Hooks: []spend.Hooks{hooks}})
			if err != nil {
				t.Fatal(err)
			}
			v := reflect.ValueOf(b.With(down{l, tc.err}))
			for i := range v.NumMethod() {
				method := v.Method(i)
				if method.Type().NumIn() == 0 || method.Type().In(0) != reflect.TypeFor[context.Context]() {
					continue
				}
				args := []reflect.Value{reflect.ValueOf(t.Context())}
				for j := 1; j < method.Type().NumIn(); j++ {
					arg := reflect.Zero(method.Type().In(j))
					for _, a := range tc.args {
						if reflect.TypeOf(a) == arg.Type() {
							arg = reflect.ValueOf(a)
						}
					}
					args = append(args, arg)
				}
				name := v.Type().Method(i).Name
				if (name == "Prune" || name == "VerifyAll" || name == "Rules" || name == "ForBudget") && tc.err == nil {
					continue // they have no request
				}
				ends = nil
				if list := method.Call(args)[0]; list.Type().CanSeq2() {
					for _, err := range list.Seq2() {
						if !err.IsValid() {
							t.Errorf("%s: a ledger that fails has an item", name)
						}
					}
				}
				if len(ends) != 1 || ends[0] != spendMethod(name)+": "+tc.want {
					t.Errorf("%s: the hooks have heard %q; want one end, %s", name, ends, tc.want)
				}
			}
		})
	}
}

// spendMethod writes the name of a method as Call.Method does.
func spendMethod(name string) string {
	var s []rune
	for i, r := range name {
		if 'A' <= r && r <= 'Z' {
			if r += 'a' - 'A'; i > 0 {
				s = append(s, '_')
			}
		}
		s = append(s, r)
	}
	return string(s)
}
