package decide

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// FuzzCodec decodes arbitrary data as an account, as a spend and as an answer. It is damage, or its
// content survives an encoding, and no number is out of range.
func FuzzCodec(f *testing.F) {
	keys := []string{"cards/a", "team/b"}
	month := figures.Rule{Name: "month", Kind: figures.Rolling, Length: time.Hour, Each: true, Per: "merchant"}
	a := account{
		past: past{key: keys[0], time: 5, pruned: minTime}, holdings: holdings{next: 9, ends: []end{{9, 1, 1}}}, currency: "EUR",
		tallies: []*figures.Tally{figures.New(&month, 7), figures.New(&figures.Rule{Name: "leaky", Kind: figures.Leaky, Limit: money.Money{Minor: 100}, Length: time.Hour}, 8)},
	}
	parts := func(rules, state []byte) []byte { // of an account, as one value
		e := newEncoder()
		e.Bytes(rules)
		e.Bytes(state)
		return e.B
	}
	for _, u := range a.tallies {
		if err := u.Advance(&a, a.time, a.time); err != nil {
			f.Fatal(err)
		}
	}
	a.seq = 3
	f.Add(parts(a.encode()))
	sp := spend{
		id: "id", accounts: keys, currency: "EUR", expires: 9, total: 5, counted: true, ended: figures.KindVoid,
		tags:  map[string]string{"a": "1", "b": ""},
		parts: []part{{dates: []int64{1, 1}, held: 2, taken: 3, refunded: 1, seqs: []int64{1, 2}}},
	}
	f.Add(book.Unsealed(sp.encode()))
	f.Add(append(book.Unsealed(sp.encode()), 0))
	usage := Usage{Usage: figures.Usage{
		Rule: "month", Currency: "EUR", Limit: 100, Used: 60, Remaining: 40, GrowsAt: time.UnixMicro(8), Tag: "merchant", Value: "m1",
	}}
	answer := Answer{At: 5, Remaining: []Usage{usage}, Declines: []Decline{{RetryAfter: time.Hour}, {Usage: -1, Account: 1, Frozen: "lost"}}}
	f.Add(answer.encode())
	f.Add([]byte{format, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1})
	decoders := map[string]func(b []byte) (again []byte, err error){
		"account": func(b []byte) ([]byte, error) {
			var a account
			whole := book.NewDecoder("an account", format, b)
			acc := ledger.Account{Rules: whole.Bytes()}
			acc = sealed(acc, whole.Bytes())
			_, err := a.decode(&acc) // figures: TestCodec
			return parts(a.encode()), cmp.Or(err, whole.End())
		},
		"spend": func(b []byte) ([]byte, error) {
			sp, err := decodeSpend("id", keys, book.Seal(slices.Clip(b), besideSpend("id", keys)))
			return book.Unsealed(sp.encode()), err
		},
		"answer": func(b []byte) ([]byte, error) {
			d, err := decodeAnswer(withAnswer(ledger.Request{Accounts: keys}, slices.Clip(b)))
			return d.encode(), err
		},
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for kind, decode := range decoders {
			first, err := decode(b)
			if err != nil {
				if !errors.Is(err, store.ErrCorrupt) {
					t.Errorf("%s: %v; want ErrCorrupt", kind, err)
				}
				continue
			}
			if again, err := decode(first); err != nil || !bytes.Equal(again, first) {
				t.Errorf("%s: %x is encoded as %x, which is decoded and encoded as %x, %v", kind, b, first, again, err)
			}
			if _, err := decode(append(bytes.Clone(b), 0)); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s: a byte more than %x: %v; want ErrCorrupt", kind, b, err)
			}
		}
	})
}

// withAnswer returns a request with an answer, sealed.
func withAnswer(r ledger.Request, answer []byte) *ledger.Request {
	r.Answer = book.Seal(answer, besideAnswer(&r))
	return &r
}

// TestSumsOutOfRange: where figures are so large that a correction of a spend does not fit, the
// correction fails instead of passing over the figures.
func TestSumsOutOfRange(t *testing.T) {
	const now = 1000
	for _, c := range []struct {
		name       string
		used, held int64
		call       func(*attempt) error
	}{
		{"a capture of all", math.MaxInt64, 5, func(a *attempt) error {
			a.act = &Action{ID: "c", Amount: 5}
			return a.capture()
		}},
		{"a capture of more than all", math.MaxInt64 - 5, 5, func(a *attempt) error {
			a.act = &Action{ID: "c", Amount: 6, Force: true}
			return a.capture()
		}},
		{"the end of a capture", 0, math.MinInt64 + 3, func(a *attempt) error {
			a.act = &Action{ID: "c", Amount: 1, Final: true}
			return a.capture()
		}},
		{"a void", 0, math.MinInt64, func(a *attempt) error {
			a.act = &Action{Kind: figures.KindVoid, ID: "v"}
			return a.spend.end(a.accounts, figures.KindVoid, "v")
		}},
		{"a refund", math.MinInt64, 0, func(a *attempt) error {
			a.act = &Action{ID: "r", Amount: 1}
			return a.refund()
		}},
		{"a reversal", math.MaxInt64, 0, func(a *attempt) error {
			a.spend.parts[0].refunded = 1
			return a.spend.reverse(a.accounts, "r", 1)
		}},
	} {
		rule := figures.Rule{Name: "window", Kind: figures.Rolling, Length: time.Hour}
		u := figures.New(&rule, 0)
		if err := u.Advance(&past{time: now, pruned: minTime}, now, now); err != nil {
			t.Fatal(err)
		}
		if err := u.Count(&ledger.Entry{Dated: now, Used: c.used, Held: c.held, Expires: now + 1}, now); err != nil {
			t.Fatal(err)
		}
		acc := &account{
			past: past{key: "cards/a", time: now, seq: 9}, budget: &Budget{Currency: "EUR"}, tallies: []*figures.Tally{u},
		}
		sp := &spend{
			id: "s", accounts: []string{acc.key}, expires: now + 1, total: 7,
			parts: []part{{dates: []int64{1}, seqs: []int64{1}, held: 5, taken: 2}},
		}
		err := c.call(&attempt{group: group{now: now, accounts: []*account{acc}}, spend: sp})
		if !errors.Is(err, money.ErrAmount) {
			t.Errorf("%s: %v; want ErrAmount", c.name, err)
		}
	}
}

// TestDamagedAnswers: an answer that names an account or a rule beyond those that there are is
// damaged.
func TestDamagedAnswers(t *testing.T) {
	keys := []string{"cards/a"}
	whole := func() Answer {
		return Answer{At: 1, Remaining: []Usage{{Usage: figures.Usage{Rule: "r", Limit: 1, Currency: "EUR"}}}, Declines: []Decline{{}}}
	}
	for name, change := range map[string]func(*Answer){
		"":                            func(*Answer) {},
		"an account before the first": func(a *Answer) { a.Remaining[0].Account = -1 },
		"an account after the last":   func(a *Answer) { a.Remaining[0].Account = 1 },
		"a rule after the last":       func(a *Answer) { a.Declines[0].Usage = 1 },
		"a frozen account too many":   func(a *Answer) { a.Declines[0] = Decline{Usage: -1, Account: 1} },
		"a share of no rule":          func(a *Answer) { a.Crossed = []Crossing{{1, 80}} },
		"a share before the first":    func(a *Answer) { a.Crossed = []Crossing{{-1, 80}} },
	} {
		a := whole()
		change(&a)
		d, err := decodeAnswer(withAnswer(ledger.Request{Accounts: keys}, a.encode()))
		if errors.Is(err, store.ErrCorrupt) != (name != "") || name == "" && len(d.Declines) != 1 {
			t.Errorf("%s: %+v, %v; want ErrCorrupt, but for the answer as it was", name, d, err)
		}
	}
}

// TestAnswersToCancellations: an answer to a cancellation that is cut off is damaged.
func TestAnswersToCancellations(t *testing.T) {
	keys := []string{"cards/a"}
	declined := Answer{Remaining: []Usage{{Usage: figures.Usage{Rule: "r", Limit: 1, Currency: "EUR"}}}, Declines: []Decline{{}}}
	answer := encodeCanceled(declined.encode(), withAnswer(ledger.Request{Accounts: keys}, declined.encode()))
	read := func(answer []byte) (Answer, error) {
		return replay(withAnswer(ledger.Request{Accounts: keys, Content: canceledContent}, slices.Clip(answer)))
	}
	if d, err := read(answer); err != nil || len(d.Before.Declines) != 1 {
		t.Fatalf("the answer to a cancellation as it was: %+v, %v", d, err)
	}
	for n := range answer {
		if d, err := read(answer[:n]); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%d bytes of an answer to a cancellation: %+v, %v; want ErrCorrupt", n, d, err)
		}
	}
}

// TestEmptySpends: a stored spend without accounts or without parts is damage.
func TestEmptySpends(t *testing.T) {
	for name, sp := range map[string]*spend{
		"no accounts": {parts: []part{{taken: 1}}},
		"no parts":    {accounts: []string{"cards/a"}},
	} {
		if got, err := decodeSpend("s", sp.accounts, sp.encode()); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s: %+v, %v; want ErrCorrupt", name, got, err)
		}
	}
}

// TestWatches: an account that is stored names a window once, also if two rules have it.
func TestWatches(t *testing.T) {
	a := account{past: past{time: 100}}
	for kind, length := range map[figures.Kind]time.Duration{figures.Rolling: 10, figures.Count: 10, figures.Lifetime: 0} {
		a.tallies = append(a.tallies, figures.New(&figures.Rule{Kind: kind, Length: length * time.Microsecond}, 0))
	}
	if got, want := a.stored().Watch, []ledger.Watch{{After: 0, Width: 10}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
