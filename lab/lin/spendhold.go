package lin

import (
	"slices"

	"github.com/brimgo/brim/spend"
)

// held is a spend from its authorization to its last refund.
type held struct {
	account int
	shared  bool
	expires int64 // 0 if nothing was ever held
	ended   bool
	total   int64
	parts   []part
}

// part is money with the date at which it counts.
type part struct{ at, held, taken, refunded int64 }

func (h held) equal(o held) bool {
	return h.account == o.account && h.expires == o.expires && h.ended == o.ended && h.total == o.total &&
		slices.Equal(h.parts, o.parts)
}

func (h held) open(now int64) bool { return h.expires > now && !h.ended }

func (h held) left(now int64) (n int64) {
	for _, p := range h.parts {
		if h.open(now) {
			n += p.held
		}
	}
	return n
}

func (h held) on(account int) bool { return h.account == account || h.shared && account == team }

func (h held) usable(known bool, now int64) error {
	switch {
	case !known:
		return spend.ErrUnknownSpend
	case h.expires == 0, h.ended:
		return spend.ErrHoldEnded
	case h.expires <= now:
		return spend.ErrHoldExpired
	}
	return nil
}

// capture takes n units of the held money, the oldest part first.
func (h *held) capture(known bool, n int64, final bool, now int64) error {
	if err := h.usable(known, now); err != nil {
		return err
	}
	if n > h.left(now) {
		return spend.ErrNotHeld
	}
	for i := range h.parts {
		p := &h.parts[i]
		k := min(n, p.held)
		p.held, p.taken, n = p.held-k, p.taken+k, n-k
	}
	if final || h.left(now) == 0 {
		h.end()
	}
	return nil
}

// decrease releases n units of the held money, the newest part first.
func (h *held) decrease(known bool, n, now int64) error {
	if err := h.usable(known, now); err != nil {
		return err
	}
	if n > h.left(now) {
		return spend.ErrNotHeld
	}
	for i := range slices.Backward(h.parts) {
		p := &h.parts[i]
		k := min(n, p.held)
		p.held, n = p.held-k, n-k
	}
	if h.left(now) == 0 {
		h.end()
	}
	return nil
}

func (h *held) end() {
	for i := range h.parts {
		h.parts[i].held = 0
	}
	h.ended = true
}

// refund gives n units back, the newest part first.
func (h *held) refund(known bool, n int64) error {
	left := int64(0)
	for _, p := range h.parts {
		left += p.taken - p.refunded
	}
	switch {
	case !known:
		return spend.ErrUnknownSpend
	case n > left:
		return spend.ErrNotCaptured
	}
	for i := range slices.Backward(h.parts) {
		p := &h.parts[i]
		k := min(n, p.taken-p.refunded)
		p.refunded, n = p.refunded+k, n-k
	}
	return nil
}
