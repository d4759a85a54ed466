package spend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// revisions is a ledger whose revisions another hand has changed.
type revisions struct {
	ledger.Ledger
	change func(newestFirst []ledger.Rules) []ledger.Rules
}

func (l *revisions) Revisions(ctx context.Context, budget string, before int64, limit int) ([]ledger.Rules, error) {
	list, err := l.Ledger.Revisions(ctx, budget, before, limit)
	return l.change(list), err
}

func (l *revisions) job(job *ledger.Job) *ledger.Job {
	other := *job
	other.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) { return job.Run(newestOf{snap, l}) }
	return &other
}

func (l *revisions) View(ctx context.Context, job *ledger.Job) error {
	return l.Ledger.View(ctx, l.job(job))
}

func (l *revisions) Decide(ctx context.Context, job *ledger.Job) error {
	return l.Ledger.Decide(ctx, l.job(job))
}

type newestOf struct {
	ledger.Snapshot
	l *revisions
}

func (s newestOf) Rules(budget string) (ledger.Rules, error) {
	r, err := s.Snapshot.Rules(budget)
	list := []ledger.Rules{r}
	if r.Seq > 1 { // the change may need the one before
		list = append(list, ledger.Rules{Budget: budget, Seq: r.Seq - 1})
	}
	if list = s.l.change(list); len(list) == 0 {
		return ledger.Rules{}, err
	}
	return list[0], err
}

// TestDamagedRules changes each field and each byte of a stored revision, and the list of
// revisions. Verify says so, and no program starts with such rules.
func TestDamagedRules(t *testing.T) {
	old := spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.PerTransaction("one", cents(5))}}
	budget := old
	budget.Revision, budget.Rules = 3, []spend.Rule{spend.PerTransaction("one", cents(500)), spend.Lifetime("ever", cents(1000))}
	newest := func(change func(*ledger.Rules)) func([]ledger.Rules) []ledger.Rules {
		return func(list []ledger.Rules) []ledger.Rules {
			list = slices.Clone(list)
			list[0].Text, list[0].Digest = bytes.Clone(list[0].Text), bytes.Clone(list[0].Digest)
			change(&list[0])
			return list
		}
	}
	damages := map[string]func([]ledger.Rules) []ledger.Rules{
		"Budget":            newest(func(r *ledger.Rules) { r.Budget = "other" }),
		"Seq":               newest(func(r *ledger.Rules) { r.Seq++ }),
		"Revision":          newest(func(r *ledger.Rules) { r.Revision-- }),
		"At":                newest(func(r *ledger.Rules) { r.At++ }),
		"By":                newest(func(r *ledger.Rules) { r.By = "" }),
		"Reason":            newest(func(r *ledger.Rules) { r.Reason = "because" }),
		"Held":              newest(func(r *ledger.Rules) { r.Held = true }),
		"Digest":            newest(func(r *ledger.Rules) { r.Digest = r.Digest[1:] }),
		"Text, cut":         newest(func(r *ledger.Rules) { r.Text = r.Text[:len(r.Text)-1] }),
		"without revisions": func([]ledger.Rules) []ledger.Rules { return nil },
		"without the one before": func(list []ledger.Rules) []ledger.Rules {
			return slices.DeleteFunc(slices.Clone(list), func(r ledger.Rules) bool { return r.Seq == 1 })
		},
	}
	l := newTestLedger(t)
	for _, b := range []spend.Budget{old, budget} {
		if _, err := spend.New(t.Context(), l, b, nil); err != nil {
			t.Fatal(err)
		}
	}
	list, err := l.Revisions(t.Context(), "cards", 0, 9)
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	for name, b := range map[string][]byte{"Text": list[0].Text, "Digest": list[0].Digest} {
		for i := range b {
			damages[fmt.Sprint("byte of ", name, ", ", i)] = newest(func(r *ledger.Rules) {
				b := map[string][]byte{"Text": r.Text, "Digest": r.Digest}[name]
				b[i] ^= 1 << (i % 8)
			})
		}
	}
	for name, change := range damages {
		b, err := spend.New(t.Context(), l, budget, nil)
		if err != nil {
			t.Fatal(err)
		}
		charged := &revisions{l, change}
		if err := b.With(charged).Verify(t.Context(), "a"); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("Verify with another %s: %v; want ErrCorrupt", name, err)
		}
		if strings.Contains(name, "without") {
			continue
		}
		if _, err := spend.New(t.Context(), charged, budget, nil); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("New with another %s: %v; want ErrCorrupt", name, err)
		}
	}
	t.Logf("%d changes", len(damages))
}

// TestRulesOfANewerVersion: a program that cannot read the newest rules goes by no others. Its
// operator has to mend that: no limit opens.
func TestRulesOfANewerVersion(t *testing.T) {
	for name, change := range map[string][2]string{
		"a field that it does not know": {`"window"`, `"opening"`}, "a zone that it does not know": {`"Europe/Berlin"`, `"Europe/Atlantis"`},
		"no JSON": {`{`, `[`},
	} {
		l := newTestLedger(t)
		berlin, err := time.LoadLocation("Europe/Berlin")
		if err != nil {
			t.Fatal(err)
		}
		b := budgets(t, l, spend.Rolling("hour", cents(100), time.Hour), spend.Calendar("day", cents(1000), spend.Day, berlin))
		hold(t, b, "open", 10, day)
		err = l.Decide(t.Context(), &ledger.Job{Rules: []ledger.Known{{Budget: "cards"}}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			r, err := snap.Rules("cards")
			r.Seq, r.Revision = r.Seq+1, r.Revision+1
			r.Text = bytes.Replace(r.Text, []byte(change[0]), []byte(change[1]), 1)
			r.Digest = decide.DigestOf(&r)
			return &ledger.Changes{Rules: []ledger.Rules{r}}, err
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := spend.Request{ID: "r", Account: "a", Amount: cents(1)}
		for call, call2 := range map[string]func() error{
			"Charge":    func() error { _, err := b.Charge(t.Context(), r); return err },
			"Record":    func() error { _, err := b.Record(t.Context(), r); return err },
			"ChargeAll": func() error { return b.ChargeAll(t.Context(), []spend.Request{r})[0].Err },
			"Capture": func() error {
				_, err := b.Capture(t.Context(), spend.CaptureRequest{ID: "c", HoldID: "open", Amount: cents(1)})
				return err
			},
			"AbleToAccept": func() error { _, err := b.AbleToAccept(t.Context(), r); return err },
			"Remaining":    func() error { _, err := b.Remaining(t.Context(), "a"); return err },
			"Verify":       func() error { return b.Verify(t.Context(), "a") },
			"Open":         func() error { _, err := spend.Open(t.Context(), l, "cards", nil); return err },
			"New": func() error {
				_, err := spend.New(t.Context(), l, spend.Budget{Name: "cards", Currency: "EUR", Revision: 9, Rules: []spend.Rule{spend.Lifetime("ever", cents(1))}}, nil)
				return err
			},
			"Rules": func() error {
				for _, err := range b.Rules(t.Context()) {
					return err
				}
				return nil
			},
		} {
			err := call2()
			if !errors.Is(err, store.ErrMisconfigured) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, spend.ErrBudget) || !strings.Contains(err.Error(), "revision 1 of the rules") {
				t.Errorf("%s with %s: %v; want ErrMisconfigured that names the revision", call, name, err)
			}
		}
	}
}
