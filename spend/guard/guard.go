// Package guard runs work whose cost is known only while it runs, such as a call of a language model
// that streams its answer, within the budgets of package spend.
package guard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

const (
	defaultTTL = 30 * time.Second
	maxID      = 100 // bytes; the ID of a part is longer
)

// Run holds the most that the work can cost: all of r.Amount, as [spend.Budgets.Authorize] does, or,
// if r.Least is set, as much as fits, as [spend.Budgets.UpTo] does. While work runs, Run extends the
// hold by its TTL, and captures each amount that work passes to [Meter.Use]. When work returns or
// panics, Run captures the rest of them and releases the hold. If the process dies, the hold expires
// after the TTL: choose some seconds to a minute; 0 means 30 seconds.
//
// If the request is declined or Replayed, work does not run. The context of work ends with ctx, or
// when nothing is held any more; [context.Cause] is then the error of the extension. Run captures
// although ctx has ended, and tries again for the TTL while the ledger is away. The error joins
// that of work and that of the ledger. If it is [store.ErrUnknownOutcome], there may be a hold
// until the TTL has passed. The ID has at most 100 bytes. Run does not read r.Hold.
func Run(ctx context.Context, b *spend.Budgets, r spend.UpToRequest, work func(ctx context.Context, m *Meter) error) (d spend.Decision, err error) {
	if len(r.ID) > maxID {
		return d, fmt.Errorf("guard: %w: the ID has %d bytes; it must have at most %d", spend.ErrRequest, len(r.ID), maxID)
	}
	if r.TTL == 0 {
		r.TTL = defaultTTL
	}
	lasting := context.WithoutCancel(ctx) // a question that ends with ctx could leave a hold behind
	if r.Hold = true; r.Least == (spend.Money{}) {
		d, err = b.Authorize(lasting, r.Request)
	} else {
		d, err = b.UpTo(lasting, r)
	}
	if err != nil || !d.Approved || d.Replayed {
		return d, err
	}
	m := &Meter{Held: d.Amount, budgets: b, ctx: lasting, id: r.ID, ttl: r.TTL, owed: spend.Money{Currency: d.Amount.Currency}}
	ctx, end := context.WithCancelCause(ctx)
	extending, stop := context.WithCancel(lasting)
	var extender sync.WaitGroup
	extender.Go(func() { end(m.extend(extending)) })
	defer func() {
		stop()
		extender.Wait()
		err = errors.Join(err, m.finish())
	}()
	return d, work(ctx, m)
}

// Meter counts the cost of the work of [Run]. Any number of goroutines may use it at once.
type Meter struct {
	Held spend.Money // by Run, when the work began

	budgets *spend.Budgets
	ctx     context.Context
	id      string // of the hold
	ttl     time.Duration

	mu    sync.Mutex
	owed  spend.Money          // used, and in no capture yet
	sent  spend.CaptureRequest // whose answer has not come; without one, its ID is empty
	parts int                  // captures
}

// Use notes that the work costs n more, and captures it, also if n exceeds the held amount. If Use
// returns before the work delivers the goods of n, nothing is delivered without being paid, even if
// the process dies. After an error of the ledger, n is captured by the next Use or at the end.
func (m *Meter) Use(n spend.Money) error {
	n, err := n.In(m.owed.Currency)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n.Minor < 0 || n.Minor > math.MaxInt64-m.owed.Minor {
		return fmt.Errorf("guard: %w: %v; it must not be negative", spend.ErrAmount, n)
	}
	m.owed.Minor += n.Minor
	return m.capture(false)
}

// capture captures all that is owed. A capture whose answer has not come goes out once more before,
// under its ID, so that it counts once.
func (m *Meter) capture(final bool) error {
	for {
		if m.sent.ID == "" {
			if m.owed.Minor == 0 && !final {
				return nil
			}
			m.parts++
			m.sent = spend.CaptureRequest{ID: fmt.Sprintf("%s/part-%d", m.id, m.parts), HoldID: m.id, Amount: m.owed, Final: final, Force: true}
			m.owed.Minor = 0
		}
		_, err := m.budgets.Capture(m.ctx, m.sent)
		over := m.sent.Amount.Minor == 0 && (errors.Is(err, spend.ErrHoldEnded) || errors.Is(err, spend.ErrHoldExpired)) // as it should be
		if err != nil && !over {
			return err
		}
		final, m.sent = final && !m.sent.Final, spend.CaptureRequest{}
	}
}

// extend extends the hold until ctx ends, or returns the error after which nothing is held.
func (m *Meter) extend(ctx context.Context) error {
	for n, until := 1, time.Now().Add(m.ttl); ; n++ {
		select {
		case <-time.After(m.ttl / 3):
		case <-ctx.Done():
			return nil
		}
		sent := time.Now()
		_, err := m.budgets.Extend(ctx, spend.ExtendRequest{ID: fmt.Sprintf("%s/ttl-%d", m.id, n), HoldID: m.id, TTL: m.ttl})
		if err == nil {
			until = sent.Add(m.ttl)
		} else if !away(err) || !time.Now().Before(until) {
			return err
		}
	}
}

// finish captures all that is owed, and ends the hold.
func (m *Meter) finish() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.capture(true)
	for until := time.Now().Add(m.ttl); away(err) && time.Now().Before(until); err = m.capture(true) {
		time.Sleep(min(m.ttl/100, time.Second))
	}
	if err != nil {
		return fmt.Errorf("guard: of the work, up to %v was not captured: %w",
			spend.Money{Minor: m.sent.Amount.Minor + m.owed.Minor, Currency: m.owed.Currency}, err)
	}
	return nil
}

// away reports whether a request may succeed when it is sent again.
func away(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome)
}
