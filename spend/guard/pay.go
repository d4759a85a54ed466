package guard

import (
	"errors"
	"fmt"

	"github.com/brimgo/brim/spend"
)

// request moves money. It goes out again under its ID until its answer has come, so that it counts
// once.
type request struct {
	kind   kind
	id     string
	amount int64
	final  bool
}

type kind uint8

const (
	capture kind = iota // of the hold
	record              // of money above that which an expiry has spent
	refund              // of money that an expiry has spent, and the work has not used
)

// pay sends requests until all that is owed is paid, and, if final, nothing is held or spent that
// the work has not used.
func (m *Meter) pay(final bool) error {
	for {
		if m.sent == nil {
			if m.sent = m.next(final); m.sent == nil {
				return nil
			}
		}
		r := m.sent
		err := m.send(r)
		switch {
		case err == nil, r.amount == 0 && errors.Is(err, spend.ErrHoldEnded): // a part before has taken all
			if m.sent, m.ended = nil, m.ended || r.final; r.kind == capture {
				m.taken += r.amount
			}
		case r.kind == capture && errors.Is(err, spend.ErrHoldExpired): // the capture has changed nothing
			m.sent, m.owed = nil, m.owed+r.amount
			if err := m.expire(); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// expire notes the money that the expiry of the hold has spent, also where somebody else has
// increased the hold, or refunded a part. It is 0 if the expiry has released the money.
func (m *Meter) expire() error {
	known, err := m.budgets.Get(m.lasting, m.hold.ID)
	if err != nil {
		return err
	}
	m.spare = max(0, known.Spend.Captured.Minor-known.Spend.Refunded.Minor-m.taken)
	m.expired, m.ended = true, true
	return nil
}

// next returns the next request, or nil if there is nothing to do.
func (m *Meter) next(final bool) *request {
	r := &request{kind: capture, amount: m.owed, final: final}
	if m.expired {
		n := min(m.owed, m.spare)
		m.owed, m.spare = m.owed-n, m.spare-n
		if r.kind, r.amount = record, m.owed; m.owed == 0 && final {
			r.kind, r.amount, m.spare = refund, m.spare, 0
		}
	}
	if r.amount == 0 && (m.ended || !final) {
		return nil
	}
	m.owed = 0
	m.parts++
	r.id = fmt.Sprintf("%s/part-%d", m.hold.ID, m.parts)
	return r
}

// money returns n minor units of the hold's currency.
func (m *Meter) money(n int64) spend.Money { return spend.Money{Minor: n, Currency: m.Held.Currency} }

// short tells the money that is not where it belongs.
func (m *Meter) short() string {
	if m.sent != nil && m.sent.kind == refund {
		return fmt.Sprintf("%v, which the expiry of the hold has spent, was not given back", m.money(m.sent.amount))
	}
	owed := m.owed
	if m.sent != nil {
		owed += m.sent.amount
	}
	return fmt.Sprintf("up to %v of the cost was not taken", m.money(owed))
}

// send sends a request, and returns the error of the answer.
func (m *Meter) send(r *request) (err error) {
	amount := m.money(r.amount)
	switch r.kind {
	case capture:
		_, err = m.budgets.Capture(m.lasting, spend.CaptureRequest{ID: r.id, HoldID: m.hold.ID, Amount: amount, Final: r.final, Force: true})
	case record:
		more := m.hold
		more.ID, more.Amount = r.id, amount
		_, err = m.budgets.Record(m.lasting, more)
	case refund:
		_, err = m.budgets.Refund(m.lasting, spend.RefundRequest{ID: r.id, SpendID: m.hold.ID, Amount: amount})
	}
	return err
}
