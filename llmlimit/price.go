package llmlimit

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/brimgo/brim/spend"
)

// Price is the price of a million tokens of each kind, and of a thousand searches. Costs are in the
// unit of Input, so give it in the unit of the budget, such as USD:8: the cost of a call is exact,
// and is rounded up once, to that unit. A zero CacheRead, CacheWrite, CacheWriteLong or Output
// means the price of Input; a kind whose price is 0 with its currency is free. Without Searches, a
// call that searched is charged the hold.
type Price struct {
	Input, CacheRead, CacheWrite, CacheWriteLong, Output spend.Money
	Searches                                             spend.Money
}

// Model has the prices and the bounds of a model, which the caller knows from the provider's list.
type Model struct {
	Price Price
	// Tiers has the prices of calls with a modifier, by the name that the provider gives it:
	// "priority", "flex", "fast", the region of the inference, or "long"; see [Usage.Tier]. A
	// request that names another modifier is refused. A call is held at the dearest price of the
	// model, since the provider may choose the tier.
	Tiers map[string]Price
	// Long is the number of input tokens above which a call has the modifier "long"; 0 means that
	// the price does not change with the length. A request whose input may be that long is refused
	// if Tiers has no price for "long", or for "priority+long" if it asks for priority.
	Long int64
	// Window is the most input tokens of a call. Requests with content whose tokens nobody can
	// count, such as a file or an earlier answer, are held at it; 0 refuses them.
	Window int64
	// MaxOutput is the most output tokens of one answer; 0 refuses requests that tell no maximum.
	MaxOutput int64
	// Image is the most input tokens of an image; 0 means Window.
	Image int64
	// Hidden is the most input tokens that the provider adds to a request with tools or with a form
	// of the answer; 0 means 2,048.
	Hidden int64
	// Extra is the most that a call costs beside the tokens of its own texts: for tools that the
	// provider runs, which bill their input again and again, and for audio and images in the
	// answer. Zero refuses such requests.
	Extra spend.Money
}

var (
	errRange    = fmt.Errorf("%w: the cost is out of range", spend.ErrAmount)
	errSearches = fmt.Errorf("%w: the model has no price of searches", spend.ErrAmount)
)

// cost returns the price of u, rounded up to a minor unit.
func (p *Price) cost(u *Usage) (spend.Money, error) {
	unit := p.Input.Currency
	if !u.valid() {
		return spend.Money{}, errRange
	}
	if u.Searches > 0 && p.Searches == (spend.Money{}) {
		return spend.Money{}, errSearches
	}
	var hi, lo uint64 // six products of 2^40 tokens, or 2^50 searches, fit
	for _, part := range []struct {
		n     int64
		price spend.Money
	}{
		{u.Input, p.Input},
		{u.CacheRead, p.CacheRead},
		{u.CacheWrite, p.CacheWrite},
		{u.CacheWriteLong, p.CacheWriteLong},
		{u.Output, p.Output},
		{u.Searches * 1000, p.Searches},
	} {
		if part.price == (spend.Money{}) {
			part.price = p.Input
		}
		price, err := part.price.In(unit)
		switch {
		case err != nil:
			return spend.Money{}, fmt.Errorf("a price of the model: %w", err)
		case price.Minor < 0:
			return spend.Money{}, fmt.Errorf("a price of the model: %w: %v; it must not be negative", spend.ErrAmount, price)
		}
		h, l := bits.Mul64(uint64(part.n), uint64(price.Minor))
		var carry uint64
		lo, carry = bits.Add64(lo, l, 0)
		hi += h + carry
	}
	const million = 1_000_000
	if hi >= million {
		return spend.Money{}, errRange
	}
	minor, rest := bits.Div64(hi, lo, million)
	if rest > 0 {
		minor++
	}
	if minor > math.MaxInt64 {
		return spend.Money{}, errRange
	}
	return spend.Money{Minor: int64(minor), Currency: unit}, nil
}

// cost returns the price of u at its Tier. It returns false if the model has no price for that.
func (m *Model) cost(u *Usage) (_ spend.Money, ok bool, err error) {
	p := m.Price
	if name := m.tier(u); name != standard && name != "" {
		if p, ok = m.Tiers[name]; !ok {
			return spend.Money{}, false, nil
		}
	}
	cost, err := p.cost(u)
	return cost, err == nil, err
}

// tier returns the modifiers of the price of u.
func (m *Model) tier(u *Usage) string {
	if m.Long > 0 && u.in() > m.Long {
		return join(u.Tier, "long")
	}
	return u.Tier
}

// most returns the highest price of u, whatever the tier.
func (m *Model) most(u *Usage) (spend.Money, error) {
	high, err := m.Price.cost(u)
	for _, p := range m.Tiers {
		cost, err2 := p.cost(u)
		if err2 == nil {
			cost, err2 = cost.In(high.Currency)
		}
		err = errors.Join(err, err2)
		high.Minor = max(high.Minor, cost.Minor)
	}
	return high, err
}

// bound returns the highest price of some tokens of input, of whatever kinds, and of output.
func (m *Model) bound(in, out int64) (high spend.Money, err error) {
	for _, u := range []Usage{{Input: in}, {CacheRead: in}, {CacheWrite: in}, {CacheWriteLong: in}} {
		u.Output = out
		cost, err := m.most(&u)
		if err != nil {
			return high, err
		}
		high = spend.Money{Minor: max(high.Minor, cost.Minor), Currency: cost.Currency}
	}
	return high, nil
}
