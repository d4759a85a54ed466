// Package guard holds money around work whose cost is known only while it runs, such as a call of a
// language model that streams its answer. It decides through package spend.
//
// [Run] holds the most that the work can cost, runs it, and takes the money that the work has used.
// [Open] and [Meter.Close] do the same for work that is no function, such as the body of an HTTP
// answer.
package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/store"
)

const (
	defaultTTL = 30 * time.Second
	maxID      = 100 // bytes; the ID of a part is longer
)

// Run opens a [Meter], runs work with it, and closes the meter when work returns or panics. If the
// request is declined or Replayed, work does not run. Run returns the answer of [Open]; the error
// joins that of work and that of [Meter.Close]. The context of work is [Meter.Context].
func Run(ctx context.Context, b *spend.Budgets, r spend.UpToRequest, work func(ctx context.Context, m *Meter) error) (_ spend.Decision, err error) {
	m, d, err := Open(ctx, b, r)
	if m == nil {
		return d, err
	}
	defer func() { err = errors.Join(err, m.Close(spend.Money{})) }()
	return d, work(m.Context(), m)
}

// Open holds the most that some work can cost: all of r.Amount, as [spend.Budgets.Authorize] does,
// or, if r.Least is set, as much as fits, as [spend.Budgets.UpTo] does. If the request is
// approved, and not Replayed, Open returns a meter, and the caller must call [Meter.Close];
// otherwise the meter is nil.
//
// Until Close, the hold is extended by its TTL again and again. If the process dies, the hold
// expires after the TTL: choose some seconds to a minute; 0 means 30 seconds. The ID has at most
// 100 bytes. Open does not read r.Hold.
//
// If the error is [store.ErrUnknownOutcome], there may be a hold until the TTL has passed, which
// [spend.SpendOnExpiry] then spends. If no other request has had the ID, [spend.Budgets.Cancel]
// ends the hold.
func Open(ctx context.Context, b *spend.Budgets, r spend.UpToRequest) (_ *Meter, d spend.Decision, err error) {
	if len(r.ID) > maxID {
		return nil, d, fmt.Errorf("guard: %w: the ID has %d bytes; it must have at most %d", spend.ErrRequest, len(r.ID), maxID)
	}
	r.TTL = cmp.Or(r.TTL, defaultTTL)
	lasting := context.WithoutCancel(ctx) // a question that ends with ctx could leave a hold behind
	if r.Hold = true; r.Least == (spend.Money{}) {
		d, err = b.Authorize(lasting, r.Request)
	} else {
		d, err = b.UpTo(lasting, r)
	}
	if err != nil || !d.Approved || d.Replayed {
		return nil, d, err
	}
	r.Tags, r.Varying, r.Also = maps.Clone(r.Tags), slices.Clone(r.Varying), slices.Clone(r.Also) // of a later Record
	r.Dated = time.Time{}
	m := &Meter{Held: d.Amount, budgets: b, hold: r.Request, lasting: lasting}
	var end context.CancelCauseFunc
	m.ctx, end = context.WithCancelCause(ctx)
	extending, stop := context.WithCancel(lasting)
	m.stop = stop
	m.extender.Go(func() { end(m.extend(extending)) })
	return m, d, nil
}

// Meter counts the cost of some work, and takes it from the hold. Any number of goroutines may use
// it at once.
type Meter struct {
	Held spend.Money // when the meter was opened

	budgets  *spend.Budgets
	hold     spend.Request
	ctx      context.Context // of the work
	lasting  context.Context // of requests
	stop     context.CancelFunc
	extender sync.WaitGroup

	mu      sync.Mutex
	used    int64    // by the work, in all
	owed    int64    // of used, and in no request yet
	taken   int64    // of used, by captures
	ended   bool     // nothing is held
	expired bool     // the hold has, and a capture was refused
	spare   int64    // spent by the expiry, and not used by the work
	sent    *request // whose answer has not come
	parts   int      // requests
}

// Context returns the context of the work. It ends with that of [Open] or [Run], after Close, and
// if the hold is lost: it has expired while the ledger was away, or somebody else has ended it.
// [context.Cause] is then the error of the extension. The context does not end if the work has
// used all that was held, and not if the expiry has spent the money, see [spend.SpendOnExpiry]: in
// both cases the money is no room for others.
func (m *Meter) Context() context.Context { return m.ctx }

// Use notes that the work costs n more, and takes n from the hold, also if n exceeds the held
// amount, and if the hold has ended. If Use returns before the work delivers the goods of n,
// nothing is delivered without being paid, even if the process dies. After an error of the ledger,
// n is taken by the next Use or by Close.
//
// If the expiry of the hold has spent the money, n comes out of that money. A
// [spend.Budgets.Record] takes more than that, in all accounts, as a spend of its own: so it
// counts in a [spend.Count] rule, and a refund of the work's ID does not give it back.
func (m *Meter) Use(n spend.Money) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.add(n); err != nil {
		return err
	}
	return m.pay(false)
}

// add notes that n is owed.
func (m *Meter) add(n spend.Money) error {
	n, err := n.In(m.Held.Currency)
	if err != nil {
		return err
	}
	if n.Minor < 0 || n.Minor > math.MaxInt64-m.used {
		return fmt.Errorf("guard: %w: %v; it must not be negative, and the sum not out of range", spend.ErrAmount, n)
	}
	m.used += n.Minor
	m.owed += n.Minor
	return nil
}

// Over returns the money by which the work has cost more than Held. No rule has approved it.
func (m *Meter) Over() spend.Money {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.money(max(0, m.used-m.Held.Minor))
}

// Close is the last Use: it notes that the work has cost last more, takes all that is owed, and
// releases the rest of the hold. The zero Money notes nothing. If an expiry has spent the money,
// Close refunds the part that the work has not used. After Close returns nil, the accounts show
// the cost of the work.
//
// Close does so although the context has ended, and tries again for the TTL while the ledger is
// away. After an error, it may be called again. After success, a Close with the zero Money does
// nothing.
func (m *Meter) Close(last spend.Money) error {
	m.stop()
	m.extender.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	var wrong error
	if last != (spend.Money{}) {
		wrong = m.add(last)
	}
	err := m.pay(true)
	for until := time.Now().Add(m.hold.TTL); away(err) && time.Now().Before(until); err = m.pay(true) {
		time.Sleep(min(m.hold.TTL/100, time.Second))
	}
	if err != nil {
		err = fmt.Errorf("guard: %s: %w", m.short(), err)
	}
	return errors.Join(wrong, err)
}

// extend extends the hold until ctx ends, or returns the error after which the hold is lost.
func (m *Meter) extend(ctx context.Context) error {
	ttl, spends := m.hold.TTL, m.hold.OnExpiry == spend.SpendOnExpiry
	for n, until := 1, time.Now().Add(ttl); ; n++ {
		select {
		case <-time.After(ttl / 3):
		case <-ctx.Done():
			return nil
		}
		sent := time.Now()
		_, err := m.budgets.Extend(ctx, spend.ExtendRequest{ID: fmt.Sprintf("%s/ttl-%d", m.hold.ID, n), HoldID: m.hold.ID, TTL: ttl})
		switch {
		case err == nil:
			until = sent.Add(ttl)
		case spends && errors.Is(err, spend.ErrHoldExpired), errors.Is(err, spend.ErrHoldEnded) && m.usedAll():
			<-ctx.Done()
			return nil
		case !away(err) || !spends && !time.Now().Before(until):
			return err
		}
	}
}

func (m *Meter) usedAll() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used >= m.Held.Minor
}

// away reports whether a request may succeed when it is sent again.
func away(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome)
}
