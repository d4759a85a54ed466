package spend_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// noLedger panics if a request reaches it.
type noLedger struct{ ledger.Ledger }

// newStrict returns budgets for requests that must be refused before the ledger
// is asked.
func newStrict(t *testing.T) *spend.Budgets {
	t.Helper()
	b, err := spend.New(noLedger{}, spend.Budget{
		Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("ever", cents(100))},
	}, &spend.Options{Budgets: []spend.Budget{{
		Name: "team", Currency: "EUR", Rules: []spend.Rule{spend.Leaky("leaky", cents(100), time.Hour)},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRequestLimits(t *testing.T) {
	b := newStrict(t)
	var seventeen []spend.Account
	for i := range 16 {
		seventeen = append(seventeen, spend.Account{Budget: "team", Name: fmt.Sprint(i)})
	}
	tags := make(map[string]string)
	for i := range 17 {
		tags[fmt.Sprint(i)] = ""
	}
	for _, c := range []struct {
		name, says string
		change     func(*spend.Request)
		want       error
	}{
		{"17 accounts", "at most 16", func(r *spend.Request) { r.Also = seventeen }, spend.ErrRequest},
		{"an account twice", "twice", func(r *spend.Request) {
			r.Also = []spend.Account{{Budget: "cards", Name: r.Account}}
		}, spend.ErrRequest},
		{"17 tags", "17 tags", func(r *spend.Request) { r.Tags = tags }, spend.ErrRequest},
		{"a long tag", "64 bytes", func(r *spend.Request) {
			r.Tags = map[string]string{strings.Repeat("x", 65): ""}
		}, spend.ErrRequest},
		{"17 tags that vary", "up to 16 names", func(r *spend.Request) { r.Varying = slices.Sorted(maps.Keys(tags)) }, spend.ErrRequest},
		{"a long value", "256 bytes", func(r *spend.Request) {
			r.Tags = map[string]string{"x": strings.Repeat("x", 257)}
		}, spend.ErrRequest},
		{"more than a Leaky rule counts", "2^53", func(r *spend.Request) {
			r.Amount = cents(1<<53 + 1)
			r.Also = []spend.Account{{Budget: "team", Name: "a"}}
		}, spend.ErrAmount},
		{"a TTL of centuries", "100 years", func(r *spend.Request) { r.TTL = math.MaxInt64 }, spend.ErrRequest},
	} {
		r := spend.Request{ID: "id", Account: "a", Amount: cents(1)}
		c.change(&r)
		d, err := b.Authorize(t.Context(), r)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || d.Approved {
			t.Errorf("%s: %+v, %v; want %v that says %q", c.name, d, err, c.want, c.says)
		}
	}
	if _, err := b.AbleToAccept(t.Context(), spend.Request{Account: "a"}); !errors.Is(err, spend.ErrCurrency) {
		t.Errorf("AbleToAccept without an amount: %v; want ErrCurrency", err)
	}
}

func TestFollowUpMistakes(t *testing.T) {
	b := newStrict(t)
	capture := func(r spend.CaptureRequest) (spend.Decision, error) { return b.Capture(t.Context(), r) }
	refund := func(r spend.RefundRequest) (spend.Decision, error) { return b.Refund(t.Context(), r) }
	for _, c := range []struct {
		name, says string
		call       func() (spend.Decision, error)
		want       error
	}{
		{"no ID", "ID must be", func() (spend.Decision, error) {
			return capture(spend.CaptureRequest{HoldID: "h", Amount: cents(1)})
		}, spend.ErrRequest},
		{"no HoldID", "HoldID must be", func() (spend.Decision, error) {
			return b.Void(t.Context(), spend.VoidRequest{ID: "i"})
		}, spend.ErrRequest},
		{"no SpendID", "SpendID must be", func() (spend.Decision, error) {
			return refund(spend.RefundRequest{ID: "i", Amount: cents(1)})
		}, spend.ErrRequest},
		{"zero, not final", "must be positive", func() (spend.Decision, error) {
			return capture(spend.CaptureRequest{ID: "i", HoldID: "h", Amount: cents(0)})
		}, spend.ErrAmount},
		{"zero to increase by", "must be positive", func() (spend.Decision, error) {
			return b.Increase(t.Context(), spend.IncreaseRequest{ID: "i", HoldID: "h", Amount: cents(0)})
		}, spend.ErrAmount},
		{"negative", "must be positive", func() (spend.Decision, error) {
			return refund(spend.RefundRequest{ID: "i", SpendID: "s", Amount: cents(-1)})
		}, spend.ErrAmount},
		{"negative and final", "must be positive", func() (spend.Decision, error) {
			return capture(spend.CaptureRequest{ID: "i", HoldID: "h", Amount: cents(-1), Final: true})
		}, spend.ErrAmount},
		{"more than a Leaky rule counts", "2^53", func() (spend.Decision, error) {
			return capture(spend.CaptureRequest{ID: "i", HoldID: "h", Amount: cents(1<<53 + 1), Force: true})
		}, spend.ErrAmount},
		{"no currency", "ISO 4217", func() (spend.Decision, error) {
			return refund(spend.RefundRequest{ID: "i", SpendID: "s", Amount: spend.Money{Minor: 1}})
		}, spend.ErrCurrency},
	} {
		d, err := c.call()
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || d.Approved {
			t.Errorf("%s: %+v, %v; want %v that says %q", c.name, d, err, c.want, c.says)
		}
	}
}

func TestUnknownBudget(t *testing.T) {
	b := newStrict(t)
	if _, err := b.ForBudget("company"); !errors.Is(err, spend.ErrRequest) ||
		!strings.Contains(err.Error(), `"company"`) {
		t.Errorf("ForBudget of an unknown budget: %v; want ErrRequest with its name", err)
	}
	// A process without the budget of an account cannot decide about its spend.
	l := newTestLedger(t)
	card := spend.Budget{Name: "card", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("ever", cents(100))}}
	team := spend.Budget{Name: "team", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("ever", cents(100))}}
	both, err := spend.New(l, card, &spend.Options{Budgets: []spend.Budget{team}})
	if err != nil {
		t.Fatal(err)
	}
	alone, err := spend.New(l, card, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := spend.Request{ID: "s", Account: "a", Amount: cents(5), Also: []spend.Account{{Budget: "team", Name: "t"}}}
	if d, err := both.Charge(t.Context(), r); err != nil || !d.Approved {
		t.Fatalf("%+v, %v", d, err)
	}
	refund := spend.RefundRequest{ID: "r", SpendID: "s", Amount: cents(5)}
	if _, err := alone.Refund(t.Context(), refund); !errors.Is(err, spend.ErrRequest) ||
		!strings.Contains(err.Error(), `"team"`) {
		t.Errorf("a refund without the team's budget: %v; want ErrRequest that names it", err)
	}
	if d, err := both.Refund(t.Context(), refund); err != nil || !d.Approved {
		t.Errorf("the same refund with the team's budget: %+v, %v", d, err)
	}
}

// Verify and History refuse mistakes before the ledger is asked.
func TestAccountMistakes(t *testing.T) {
	b := newStrict(t)
	if err := b.Verify(t.Context(), ""); !errors.Is(err, spend.ErrRequest) {
		t.Errorf("Verify of an empty account: %v; want ErrRequest", err)
	}
	for _, c := range []struct {
		name    string
		account string
		o       *spend.HistoryOptions
	}{
		{"an empty account", "", nil},
		{"a negative limit", "a", &spend.HistoryOptions{Limit: -1}},
		{"a negative position", "a", &spend.HistoryOptions{Before: spend.Entry{Seq: -1}}},
	} {
		n := 0
		for e, err := range b.History(t.Context(), c.account, c.o) {
			if n++; !errors.Is(err, spend.ErrRequest) || e.Seq != 0 {
				t.Errorf("History with %s: %+v, %v; want ErrRequest", c.name, e, err)
			}
		}
		if n != 1 {
			t.Errorf("History with %s yielded %d times; want once", c.name, n)
		}
	}
}

// Amounts near the limits of an int64 are refused and never wrap around.
func TestHugeAmounts(t *testing.T) {
	l := newTestLedger(t)
	b, err := spend.New(l, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
		spend.Lifetime("ever", cents(10)).Matching("kind", "small"), spend.PerTransaction("single", cents(math.MaxInt64)),
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	huge := spend.Request{ID: "huge", Account: "a", Amount: cents(math.MaxInt64)}
	if d, err := b.Authorize(t.Context(), huge); err != nil || !d.Approved {
		t.Fatalf("the largest amount: %+v, %v", d, err)
	}
	increase := spend.IncreaseRequest{ID: "more", HoldID: "huge", Amount: cents(1)}
	if _, err := b.Increase(t.Context(), increase); !errors.Is(err, spend.ErrAmount) {
		t.Errorf("an increase of the largest amount: %v; want ErrAmount", err)
	}
	capture := spend.CaptureRequest{ID: "more", HoldID: "huge", Amount: cents(math.MaxInt64), Force: true}
	if d, err := b.Capture(t.Context(), capture); err != nil || !d.Approved {
		t.Fatalf("a capture of the largest amount: %+v, %v", d, err)
	}
	capture.ID, capture.Amount = "late", cents(1)
	if _, err := b.Capture(t.Context(), capture); !errors.Is(err, spend.ErrAmount) {
		t.Errorf("a forced capture beyond the largest total: %v; want ErrAmount", err)
	}
	record := spend.Request{
		ID: "record", Account: "b", Amount: cents(math.MaxInt64), Tags: map[string]string{"kind": "small"},
	}
	if d, err := b.Record(t.Context(), record); err != nil || d.Remaining[0].Remaining != cents(10-math.MaxInt64) {
		t.Errorf("the largest record: %+v, %v", d, err)
	}
	small := spend.Request{ID: "small", Account: "b", Amount: cents(1), Tags: record.Tags}
	if d, err := b.Charge(t.Context(), small); err != nil || d.Approved || d.RetryAfter != store.Never {
		t.Errorf("a charge after the largest record: %+v, %v; want a decline for ever", d, err)
	}
}

// Recorded and held money can exceed a lowered limit by more than an int64 holds.
func TestHugeExcess(t *testing.T) {
	l := newTestLedger(t)
	with := func(limit int64) *spend.Budgets {
		b, err := spend.New(l, spend.Budget{
			Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("ever", cents(limit))},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	hold := spend.Request{ID: "hold", Account: "a", Amount: cents(100)}
	if d, err := with(100).Authorize(t.Context(), hold); err != nil || !d.Approved {
		t.Fatalf("%+v, %v", d, err)
	}
	record := spend.Request{ID: "record", Account: "a", Amount: cents(math.MaxInt64)}
	if d, err := with(100).Record(t.Context(), record); err != nil || d.Remaining[0].Remaining != cents(-math.MaxInt64) {
		t.Fatalf("the largest record: %+v, %v", d, err)
	}
	d, err := with(1).AbleToAccept(t.Context(), spend.Request{Account: "a", Amount: cents(1)})
	if err != nil || d.Approved || d.RetryAfter != store.Never || d.Remaining[0].Remaining != cents(math.MinInt64) {
		t.Errorf("one cent after the limit was lowered: %+v, %v; want a decline for ever", d, err)
	}
}

// With decides in another ledger by the same rules.
func TestWith(t *testing.T) {
	first, second := newTestLedger(t), newTestLedger(t)
	_, b := everyRule(t, first)
	r := spend.Request{ID: "id", Account: "a", Amount: cents(1000)}
	for _, l := range []ledger.Ledger{first, second} {
		if d, err := b.With(l).Charge(t.Context(), r); err != nil || !d.Approved || d.Replayed {
			t.Errorf("the first charge in a ledger: %+v, %v", d, err)
		}
	}
	if d, err := b.Charge(t.Context(), r); err != nil || !d.Replayed {
		t.Errorf("the second charge in the first ledger: %+v, %v; want a replay", d, err)
	}
}

// TestMessagesFitTheirCall: only a capture can be forced, and only a final one may be of zero.
func TestMessagesFitTheirCall(t *testing.T) {
	now := time.Unix(0, 0)
	l := memledger.New(&memledger.Options{Clock: func() time.Time { return now }})
	b, err := spend.New(l, spend.Budget{Name: "b", Currency: "EUR", Rules: []spend.Rule{spend.Lifetime("r", cents(100))}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if _, err := b.Authorize(ctx, spend.Request{ID: "h", Account: "a", Amount: cents(1), TTL: time.Second}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	capture := func(n int64) error {
		_, err := b.Capture(ctx, spend.CaptureRequest{ID: "c", HoldID: "h", Amount: cents(n)})
		return err
	}
	increase := func(n int64) error {
		_, err := b.Increase(ctx, spend.IncreaseRequest{ID: "c", HoldID: "h", Amount: cents(n)})
		return err
	}
	void := func(int64) error { _, err := b.Void(ctx, spend.VoidRequest{ID: "c", HoldID: "h"}); return err }
	for _, c := range []struct {
		call func(int64) error
		n    int64
		says string
	}{
		{capture, 1, "spend: hold has expired; to capture money that has been taken nevertheless, set Force"},
		{increase, 1, "spend: hold has expired"},
		{void, 0, "spend: hold has expired"},
		{capture, 0, "spend: invalid amount: 0.00 EUR; it must be positive, or zero with Final"},
		{increase, 0, "spend: invalid amount: 0.00 EUR; it must be positive"},
	} {
		if err := c.call(c.n); err == nil || err.Error() != c.says {
			t.Errorf("got %v; want %q", err, c.says)
		}
	}
}
