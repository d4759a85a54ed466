package decide

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Budget is one revision of a budget, without mistakes.
type Budget struct {
	Name     string
	Currency string
	Revision int64
	Plans    map[string]*Plan // "" has the rules of an account without a plan
	Retired  []string         // names of rules whose figures may go
	Text     []byte           // as this version of the library writes it
	digest   []byte           // of the revision in the ledger; nil if the ledger does not have it
}

// Plan is a set of rules.
type Plan struct {
	Rules        []figures.Rule
	Fingerprints []uint64
}

// Prefix begins the keys of all accounts of the budget.
func (b *Budget) Prefix() string { return b.Name + "/" }

// rules yields the rules of all plans, in the order of the plans, with their fingerprints.
func (b *Budget) rules(yield func(*figures.Rule, uint64) bool) {
	for _, name := range slices.Sorted(maps.Keys(b.Plans)) {
		for i, plan := 0, b.Plans[name]; i < len(plan.Rules); i++ {
			if !yield(&plan.Rules[i], plan.Fingerprints[i]) {
				return
			}
		}
	}
}

// plan returns a plan of the budget.
func (b *Budget) plan(name string) (*Plan, error) {
	if p := b.Plans[name]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("spend: %w: revision %d of budget %q has no plan %.64q%w", ErrBudget, b.Revision, b.Name, name, errNoPlan)
}

// errNoPlan is part of the error of an account whose plan is gone. It has no text.
var errNoPlan = errors.New("")

// Rulebook has the newest rules that a process has read.
type Rulebook struct {
	// Parse reads the text of a revision.
	Parse func(text []byte) (*Budget, error)
	// Difference tells in few words how the text of a revision differs from that of an older one.
	Difference func(old, text []byte) string
	newest     atomic.Pointer[known]
}

// known is the rules that a job need not read again. It never changes.
type known struct {
	budgets map[string]*Budget // by name
	list    []ledger.Known
}

// of returns the rules of the budgets of accounts: a job reads those of no other.
func (k *known) of(keys ...string) (list []ledger.Known) {
	for _, key := range keys {
		name := budgetOf(key)
		b, found := k.budgets[name]
		if found && !slices.ContainsFunc(list, func(has ledger.Known) bool { return has.Budget == name }) {
			list = append(list, ledger.Known{Budget: name, Digest: b.digest})
		}
	}
	return list
}

func (r *Rulebook) known() *known {
	if k := r.newest.Load(); k != nil {
		return k
	}
	return new(known)
}

// Unit returns the currency with the scale in which a budget, or else another one, counts the
// amounts of a currency. It is empty if no budget does.
func (r *Rulebook) Unit(first *Budget, currency string) string {
	iso := money.ISO(currency)
	if money.ISO(first.Currency) == iso {
		return first.Currency
	}
	k := r.known()
	for _, known := range k.list {
		if unit := k.budgets[known.Budget].Currency; money.ISO(unit) == iso {
			return unit
		}
	}
	return ""
}

// keep adds rules, which take the place of others of their budget.
func (r *Rulebook) keep(b *Budget) {
	for {
		old := r.newest.Load()
		k := &known{budgets: map[string]*Budget{b.Name: b}}
		if old != nil {
			k.budgets = maps.Clone(old.budgets)
			k.budgets[b.Name] = b
		}
		for _, name := range slices.Sorted(maps.Keys(k.budgets)) {
			k.list = append(k.list, ledger.Known{Budget: name, Digest: k.budgets[name].digest})
		}
		if r.newest.CompareAndSwap(old, k) {
			return
		}
	}
}

// read returns the rules of a revision that the ledger has. They are found by their digest: if a
// transaction is rolled back, one number may have had two texts.
func (r *Rulebook) read(stored *ledger.Rules) (*Budget, error) {
	if b := r.known().budgets[stored.Budget]; b != nil && bytes.Equal(b.digest, stored.Digest) {
		return b, nil
	}
	b, err := r.parse(stored)
	if err == nil {
		r.keep(b)
	}
	return b, err
}

// parse reads a revision, and proves that it is as it was stored.
func (r *Rulebook) parse(stored *ledger.Rules) (*Budget, error) {
	if err := prove(stored); err != nil {
		return nil, err
	}
	b, err := r.Parse(stored.Text)
	if err != nil {
		return nil, Unreadable(stored, err)
	}
	if b.Name != stored.Budget || b.Revision != stored.Revision {
		return nil, damaged("the rules of budget %q are those of revision %d of %q", stored.Budget, b.Revision, b.Name)
	}
	b.digest = stored.Digest
	return b, nil
}

// Unreadable is the error of a revision that this version of the library cannot read.
func Unreadable(r *ledger.Rules, err error) error {
	return fmt.Errorf("spend: %w: this version of the program cannot read revision %d of the rules of budget %q: %v; "+
		"update the program, or give it the data of time zones", store.ErrMisconfigured, r.Revision, r.Budget, err)
}

// prove returns an error if a revision is not as it was stored.
func prove(r *ledger.Rules) error {
	if !bytes.Equal(DigestOf(r), r.Digest) {
		return damaged("the rules of budget %q are not as they were stored", r.Budget)
	}
	return nil
}

// DigestOf returns the digest of a revision.
func DigestOf(r *ledger.Rules) []byte {
	var b []byte
	for _, n := range [...]int64{r.Seq, r.Revision, r.At} {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	for _, s := range [...]string{r.Budget, r.By, r.Reason, fmt.Sprint(r.Held), string(r.Text)} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return sum[:digestSize]
}

// unread is the error of a job about a budget that the process has not read yet.
type unread struct{ budget string }

func (u *unread) Error() string {
	return fmt.Sprintf("spend: budget %.64q has not been read", u.budget)
}

// newestIn returns the newest rules of a budget. The job has locked its accounts before, so whoever
// decides on one of them later goes by these rules, or by newer ones.
func (r *Rulebook) newestIn(snap ledger.Snapshot, k *known, name string) (*Budget, error) {
	has := k.budgets[name]
	if has == nil {
		return nil, &unread{name}
	}
	stored, err := snap.Rules(name)
	switch {
	case err != nil:
		return nil, err
	case stored.Seq == 0:
		return nil, damaged("the rules of budget %q are gone", name)
	case bytes.Equal(stored.Digest, has.digest):
		return has, nil
	}
	return r.read(&stored)
}

// newestOf returns the newest rules of the budget of an account.
func (g *group) newestOf(key string) (*Budget, error) {
	return g.decider.Rules.newestIn(g.snap, g.known, budgetOf(key))
}

// budgetOf returns the name of the budget of an account.
func budgetOf(key string) string {
	name, _, _ := strings.Cut(key, "/")
	return name
}

// Find returns the rules of a budget that the process has read last. It reads those of a budget
// that it has not read yet.
func (d *Decider) Find(ctx context.Context, name string) (*Budget, error) {
	if b := d.Rules.known().budgets[name]; b != nil {
		return b, nil
	}
	return d.fetch(ctx, name)
}

// fetch reads the newest rules of a budget.
func (d *Decider) fetch(ctx context.Context, name string) (*Budget, error) {
	out := new(*Budget)
	job := &ledger.Job{Rules: []ledger.Known{{Budget: name}}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		r, err := snap.Rules(name)
		if err == nil && r.Seq == 0 {
			err = BadRequest("the ledger has no budget that is called %.64q", name)
		}
		if err == nil {
			*out, err = d.Rules.read(&r)
		}
		return nil, err
	}}
	err := d.Ledger.View(ctx, job)
	return *out, err
}

// Declaration is rules that are to hold.
type Declaration struct {
	*Budget
	By, Reason string
	// Starts tells that a program starts with these rules: those of the ledger hold if they are
	// newer, or held.
	Starts bool
	// WarmUp counts the entries of accounts with many for rules that are new to them, before the
	// rules hold.
	WarmUp bool
	// Hold holds the rules against programs that start, and Release ends that.
	Hold, Release bool
}

// errOlder is the error of a View that has found older rules than those to be declared, or none.
var errOlder = errors.New("spend: the ledger has older rules, or none")

// Declare stores rules as the newest. Rules that the ledger has as they are, and rules with which a
// program starts and which must not hold, are not stored: the difference is returned then. A
// declaration that stores nothing needs no right to write.
func (d *Decider) Declare(ctx context.Context, next *Declaration) (difference string, err error) {
	differs := new(string)
	job := func(writes bool) *ledger.Job {
		return &ledger.Job{Rules: []ledger.Known{{Budget: next.Name}}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			r, err := snap.Rules(next.Name)
			if err != nil {
				return nil, err
			}
			var stores bool
			if stores, *differs, err = d.Rules.judge(&r, next); err != nil || !stores {
				return nil, err
			}
			if !writes {
				return nil, errOlder
			}
			return &ledger.Changes{Rules: []ledger.Rules{next.after(&r, snap.Now())}}, nil
		}}
	}
	if err := d.Ledger.View(ctx, job(false)); !errors.Is(err, errOlder) {
		return *differs, err
	}
	if err := d.plansInUse(ctx, next.Budget); err != nil {
		return "", err
	}
	var warm []string
	if next.WarmUp {
		if warm, err = (counter{d}).warm(ctx, next.Budget); err != nil {
			return "", err
		}
	}
	if err := d.Ledger.Decide(ctx, job(true)); err != nil {
		return "", err
	}
	// The rules are stored. Where one of these fails, a decision does it.
	_, _ = d.fetch(ctx, next.Name)
	counter{d}.settle(ctx, warm)
	return *differs, nil
}

// after returns the revision that follows one in the ledger.
func (n *Declaration) after(has *ledger.Rules, now int64) ledger.Rules {
	r := ledger.Rules{
		Budget: n.Name, Seq: has.Seq + 1, Revision: n.Revision, At: now, By: n.By, Reason: n.Reason,
		Held: n.Hold || has.Held && !n.Release, Text: n.Text,
	}
	r.Digest = DigestOf(&r)
	return r
}

// judge reports whether rules are to be stored after those that the ledger has.
func (r *Rulebook) judge(has *ledger.Rules, next *Declaration) (stores bool, difference string, err error) {
	if has.Seq == 0 {
		return true, "", nil
	}
	old, err := r.read(has)
	if err != nil {
		return false, "", err
	}
	differs := ""
	if !bytes.Equal(old.Text, next.Text) {
		differs = r.Difference(old.Text, next.Text)
	}
	switch {
	case old.Currency != next.Currency:
		err = fmt.Errorf("spend: %w: budget %q counts in %s and not in %s; a budget that counts in another unit needs another name",
			money.ErrCurrency, next.Name, old.Currency, next.Currency)
	case next.Starts && (next.Revision < has.Revision || has.Held):
		return false, differs, nil
	case next.Revision > has.Revision:
		return true, "", next.follows(old)
	default:
		err = next.repeats(has, differs)
	}
	return false, "", err
}

// repeats returns an error unless the rules, whose revision is not higher than that in the ledger,
// are those.
func (n *Declaration) repeats(has *ledger.Rules, differs string) error {
	switch {
	case n.Revision < has.Revision:
		return fmt.Errorf("spend: %w: the ledger has revision %d of budget %q, and these rules are revision %d; give them a higher one",
			ErrBudget, has.Revision, n.Name, n.Revision)
	case differs != "":
		return fmt.Errorf("spend: %w: the ledger has other rules as revision %d of budget %q: %s; give these rules a higher revision",
			ErrBudget, n.Revision, n.Name, differs)
	case n.Hold && !has.Held, n.Release && has.Held:
		return fmt.Errorf("spend: %w: the ledger has revision %d of budget %q; to hold or to release its rules, give them a higher one",
			ErrBudget, has.Revision, n.Name)
	}
	return nil
}

// follows returns an error if the rules cannot take the place of the old ones: figures would be
// gone that no entry can restore, or an account's own limit would be in another unit.
func (b *Budget) follows(old *Budget) error {
	for r, fingerprint := range old.rules {
		kept := false
		for x, f := range b.rules {
			kept = kept || x.Name == r.Name && f == fingerprint
			if x.Name == r.Name && x.Spends() != r.Spends() {
				return fmt.Errorf("spend: %w: rule %q counts spends in one revision of budget %q and money in another; give it another name",
					ErrBudget, r.Name, b.Name)
			}
		}
		if !kept && (r.Span() == figures.Leaks || r.Span() == figures.Forever) && !slices.Contains(b.Retired, r.Name) {
			return fmt.Errorf("spend: %w: revision %d of budget %q lacks %s rule %q, or has another filter for it, and its used amount would be gone; "+
				"if that is meant, name the rule in Budget.Retired", ErrBudget, b.Revision, b.Name, figures.Kinds[r.Kind].Name, r.Name)
		}
	}
	return nil
}

// plansInUse returns an error if the rules lack a plan that an account has.
func (d *Decider) plansInUse(ctx context.Context, next *Budget) error {
	old := d.Rules.known().budgets[next.Name]
	if old == nil {
		return nil
	}
	gone := maps.Clone(old.Plans)
	for name := range next.Plans {
		delete(gone, name)
	}
	if len(gone) == 0 {
		return nil
	}
	_, err := d.eachPage(ctx, old, new(book.Pace), 0, func(keys []string) error {
		return d.Ledger.View(ctx, &ledger.Job{Accounts: keys, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
			for _, key := range keys {
				stored, err := snap.Account(key)
				var a account
				if err == nil && stored.State != nil {
					_, err = a.decode(&stored)
				}
				if errors.Is(err, store.ErrCorrupt) {
					continue // whoever decides on it hears of that
				}
				if err != nil {
					return nil, err
				}
				if gone[a.plan] != nil {
					return nil, fmt.Errorf("spend: %w: revision %d of budget %q lacks plan %q, which accounts have; give them another plan first",
						ErrBudget, next.Revision, next.Name, a.plan)
				}
			}
			return nil, nil
		}})
	})
	return err
}

// revisionsPage is the number of revisions that are read at once.
const revisionsPage = 50

// Revisions iterates over the revisions of a budget, newest first, and proves each.
func (d *Decider) Revisions(ctx context.Context, name string) iter.Seq2[ledger.Rules, error] {
	return func(yield func(ledger.Rules, error) bool) {
		for before, next := int64(0), int64(0); before != 1; {
			page, err := d.Ledger.Revisions(ctx, name, before, revisionsPage)
			if err == nil && len(page) == 0 {
				err = damaged("the rules of budget %q are gone, or a revision is", name)
			}
			if err != nil {
				yield(ledger.Rules{}, err)
				return
			}
			for i := range page {
				r := &page[i]
				switch {
				case r.Budget != name || next != 0 && r.Seq != next || r.Seq < 1:
					err = damaged("revision %d of the rules of budget %q is out of order, or one before it is missing", r.Revision, name)
				default:
					err = prove(r)
				}
				if !yield(*r, err) || err != nil {
					return
				}
				before, next = r.Seq, r.Seq-1
			}
		}
	}
}
