package soak

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/spend/sqliteledger"
	"github.com/brimgo/brim/sqlite"
)

// Prune needs no entry and no ID after keepIDs, so a run of a minute reaches its full size.
const (
	cards   = 300
	window  = 4 * time.Second
	holdTTL = 2 * time.Second
	keepIDs = 5 * time.Second
	// scarceLimit is the number of minor units that a window of the scarce account holds.
	scarceLimit = 40
)

func euros(minor int64) spend.Money { return spend.Money{Minor: minor, Currency: "EUR"} }

// spending is the duty of a ledger: spends, holds, captures, refunds and retries on some accounts.
type spending struct {
	*work
	ledger   ledger.Ledger
	cards    *spend.Budgets
	scarce   *spend.Budgets
	ids      atomic.Int64
	approved atomic.Int64 // minor units of the scarce account
	replayed atomic.Int64
}

func newSpending(t *testing.T, w *work, l ledger.Ledger) *spending {
	t.Helper()
	o := &spend.Options{HoldTTL: holdTTL, KeepIDs: keepIDs}
	budgets := func(name string, rules ...spend.Rule) *spend.Budgets {
		b, err := spend.New(t.Context(), l, spend.Budget{Name: name, Currency: "EUR", Rules: rules}, o)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	return &spending{
		work: w, ledger: l,
		cards: budgets("cards",
			spend.Rolling("rolling", euros(200), window), spend.Count("count", 50, window),
			spend.Leaky("leaky", euros(200), window), spend.PerTransaction("single", euros(25))),
		scarce: budgets("scarce", spend.Rolling("rolling", euros(scarceLimit), window)),
	}
}

func (s *spending) id() string { return fmt.Sprintf("%x-%x", s.began.UnixNano(), s.ids.Add(1)) }

func (s *spending) call(ctx context.Context, c *caller, _ int) (err error) {
	r := spend.Request{
		ID: s.id(), Account: fmt.Sprintf("card:%03d", c.r.IntN(cards)), Amount: euros(1 + c.r.Int64N(20)),
	}
	switch p := c.r.Float64(); {
	case p < hotShare:
		return s.chargeScarce(ctx, r.ID)
	case p < 0.3:
		_, err = s.cards.Charge(ctx, r)
	case p < 0.4:
		return s.chargeTwice(ctx, r)
	case p < 0.8:
		return s.hold(ctx, c, r)
	case p < 0.9:
		_, err = s.cards.AbleToAccept(ctx, r)
	case p < 0.98:
		_, err = s.cards.Remaining(ctx, r.Account)
	default:
		for _, err = range s.cards.History(ctx, r.Account, &spend.HistoryOptions{Limit: 20}) {
			if err != nil {
				break
			}
		}
	}
	return err
}

func (s *spending) chargeScarce(ctx context.Context, id string) error {
	d, err := s.scarce.Charge(ctx, spend.Request{ID: id, Account: "all", Amount: euros(1)})
	if err == nil && d.Approved {
		s.approved.Add(1)
	}
	return err
}

// chargeTwice sends a request again. The second answer must be the first one, unless the ID may
// have been pruned meanwhile.
func (s *spending) chargeTwice(ctx context.Context, r spend.Request) error {
	start := time.Now()
	first, err := s.cards.Charge(ctx, r)
	if err != nil {
		return err
	}
	again, err := s.cards.Charge(ctx, r)
	if err != nil || time.Since(start) > keepIDs/2 {
		return err
	}
	if !again.Replayed || again.Approved != first.Approved || !again.At.Equal(first.At) {
		return fmt.Errorf("a retry got %+v; the first answer was %+v", again, first)
	}
	s.replayed.Add(1)
	return nil
}

// hold authorizes a request, and ends the caller's oldest hold if it has more than holds of them.
// That hold may have expired, and its ID may have been pruned.
func (s *spending) hold(ctx context.Context, c *caller, r spend.Request) error {
	d, err := s.cards.Authorize(ctx, r)
	if err != nil {
		return err
	}
	if d.Approved {
		c.spends = append(c.spends, r.ID)
	}
	if len(c.spends) <= holds {
		return nil
	}
	oldest := c.spends[0]
	c.spends = append(c.spends[:0], c.spends[1:]...)
	switch c.r.IntN(3) {
	case 0:
		_, err = s.cards.Void(ctx, spend.VoidRequest{ID: s.id(), HoldID: oldest})
	case 1:
		return nil // expires
	default:
		_, err = s.cards.Capture(ctx, spend.CaptureRequest{ID: s.id(), HoldID: oldest, Amount: euros(1), Final: true})
		if err == nil {
			_, err = s.cards.Refund(ctx, spend.RefundRequest{ID: s.id(), SpendID: oldest, Amount: euros(1)})
		}
	}
	for _, late := range []error{spend.ErrHoldExpired, spend.ErrHoldEnded, spend.ErrUnknownSpend} {
		if errors.Is(err, late) {
			return nil
		}
	}
	return err
}

func (s *spending) prune(ctx context.Context) (int64, error) {
	var pruned int64
	for _, b := range []*spend.Budgets{s.cards, s.scarce} {
		n, err := b.Prune(ctx)
		if pruned += n.Requests; err != nil {
			return pruned, err
		}
	}
	return pruned, nil
}

// shareOfBound returns the units of the scarce account, divided by the most that all windows since
// the load began may hold.
func (s *spending) shareOfBound() float64 {
	return float64(s.approved.Load()) / (scarceLimit * (1 + s.passed().Seconds()/window.Seconds()))
}

func (s *spending) check(t *testing.T) {
	t.Helper()
	if share := s.shareOfBound(); share > 1 || share < 0.5 {
		t.Errorf("the scarce account spent %.3f of the most that it may spend; want 0.5 to 1", share)
	}
	if s.replayed.Load() == 0 || s.pruned.Load() == 0 {
		t.Errorf("%d retries were replayed and %d IDs were pruned; want some of both", s.replayed.Load(), s.pruned.Load())
	}
	if err := s.scarce.Verify(t.Context(), "all"); err != nil {
		t.Error(err)
	}
	for i := range cards {
		if err := s.cards.Verify(t.Context(), fmt.Sprintf("card:%03d", i)); err != nil {
			t.Error(err)
		}
	}
}

func (s *spending) story() string {
	return fmt.Sprintf("the scarce account spent %.3f of its bound; %d retries were replayed",
		s.shareOfBound(), s.replayed.Load())
}

func (s *spending) close() error { return errors.Join(s.ledger.Close(), s.subject.store.Close()) }

func spendInFile(t *testing.T, w *work) *subject {
	s := inFile(t, w)
	l, err := boltledger.New(s.store.(*bolt.Store), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.duty, s.recent = newSpending(t, w, l), true
	return s
}

func spendInSQLite(t *testing.T, w *work) *subject {
	s := inSQLite(t, w)
	l, err := sqliteledger.New(t.Context(), s.store.(*sqlite.Store), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.duty, s.recent = newSpending(t, w, l), true
	return s
}

func spendInPostgres(t *testing.T, w *work) *subject {
	s := inPostgres(t, w)
	l, err := pgledger.New(s.store.(*postgres.Store), nil)
	if err != nil {
		t.Fatal(err)
	}
	s.duty, s.recent = newSpending(t, w, l), true
	s.step = 1 << 22 // the dead rows of four tables and their indexes, from one VACUUM to the next
	return s
}
