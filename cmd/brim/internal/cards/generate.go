package cards

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/brimgo/brim/spend"
)

// Generation describes a log to generate.
type Generation struct {
	Seed     uint64
	Cards    int
	Days     int
	Start    time.Time
	Currency string
}

// Synthetic is the beginning of the first line of every generated log.
const Synthetic = "# synthetic: made by brim spend generate, no real card, person or merchant"

// merchant is a shop that takes cards.
type merchant struct {
	name, category, country string
	typical                 float64 // amount, in major units
	holds                   bool    // authorizes before it captures
}

var categories = []struct {
	name    string
	typical float64
	holds   bool
}{
	{"groceries", 35, false},
	{"restaurant", 28, true},
	{"fuel", 60, true},
	{"travel", 180, true},
	{"hotel", 240, true},
	{"online", 45, false},
	{"transit", 4, false},
	{"pharmacy", 18, false},
}

var countries = []string{"DE", "DE", "DE", "DE", "FR", "NL", "US", "BR"}

// Generate writes a log. Each card gets a salary once a month, and spends most right after it. A
// few merchants take most of the money. Some spends come in bursts, some are refunded, some
// requests are sent twice, and some captures come late. The same Generation always gives the same
// log.
func Generate(ctx context.Context, w io.Writer, g Generation) error {
	places, ok := spend.MinorUnits(g.Currency)
	if g.Cards < 1 || g.Days < 1 || g.Cards > 1_000_000 || g.Days > 3660 || !ok {
		return errors.New("it takes 1 to 1,000,000 cards, 1 to 3,660 days, and a currency of ISO 4217")
	}
	r := rand.New(rand.NewPCG(g.Seed, 0x627269_6d))
	merchants := make([]merchant, 500)
	for i := range merchants {
		c := categories[r.IntN(len(categories))]
		merchants[i] = merchant{
			fmt.Sprintf("synthetic-%03d", i),
			c.name,
			countries[r.IntN(len(countries))],
			c.typical * math.Exp(r.NormFloat64()/3),
			c.holds,
		}
	}
	m := &maker{
		Generation: g,
		r:          r,
		scale:      math.Pow10(places),
		merchants:  merchants,
		zipf:       rand.NewZipf(r, 1.2, 4, uint64(len(merchants)-1)),
	}
	for card := range g.Cards {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		m.card(card)
	}
	slices.SortStableFunc(m.events,
		func(a, b Event) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
	return m.write(w)
}

// maker collects the events of a log.
type maker struct {
	Generation
	r         *rand.Rand
	scale     float64
	merchants []merchant
	zipf      *rand.Zipf
	events    []Event
	ids       int
}

func (m *maker) id() string {
	m.ids++
	return fmt.Sprintf("synthetic-%d-%d", m.Seed, m.ids)
}

// card makes all events of a card.
func (m *maker) card(n int) {
	account := fmt.Sprintf("synthetic-card-%05d", n)
	salary := []int{1, 15, 25, 28}[m.r.IntN(4)]
	eager := 0.3 + 2*m.r.Float64() // spends per day, on average
	for day := range m.Days {
		date := m.Start.AddDate(0, 0, day)
		since := (date.Day() - salary + 30) % 30
		mean := eager * (0.5 + 1.5*math.Exp(-float64(since)/6))
		for range m.poisson(mean) {
			at := date.Add(time.Duration(8*3600+m.r.IntN(14*3600)) * time.Second)
			if m.r.IntN(80) > 0 {
				m.visit(account, at)
				continue
			}
			for range 3 + m.r.IntN(6) { // a burst
				m.visit(account, at)
				at = at.Add(time.Duration(5+m.r.IntN(90)) * time.Second)
			}
		}
	}
}

// poisson draws a number from the Poisson distribution with the given mean.
func (m *maker) poisson(mean float64) (n int) {
	for p := m.r.Float64(); p > math.Exp(-mean); p *= m.r.Float64() {
		n++
	}
	return n
}

// add adds an event, and sometimes a retry of it.
func (m *maker) add(e Event) {
	m.events = append(m.events, e)
	if m.r.IntN(50) == 0 { // a retry, as if no answer had come in time
		e.Time = e.Time.Add(time.Duration(1+m.r.IntN(30)) * time.Second)
		m.events = append(m.events, e)
	}
}

// visit makes one spend with its capture and refund.
func (m *maker) visit(account string, at time.Time) {
	shop := m.merchants[m.zipf.Uint64()]
	amount := max(1, int64(shop.typical*math.Exp(m.r.NormFloat64()/2)*m.scale))
	tags := map[string]string{"merchant": shop.name, "category": shop.category, "country": shop.country}
	e := Event{
		Time:     at,
		Kind:     "spend",
		ID:       m.id(),
		Account:  account,
		Amount:   m.text(amount),
		Currency: m.Currency,
		Tags:     tags,
	}
	begun, taken := e.ID, amount
	if shop.holds {
		e.Kind = "authorize"
		m.add(e)
		taken = m.settle(begun, shop, amount, at)
	} else {
		m.add(e)
	}
	if taken > 0 && m.r.IntN(30) == 0 {
		back := taken
		if m.r.IntN(2) == 0 {
			back = 1 + m.r.Int64N(taken)
		}
		m.follow("refund", begun, back, at.Add(time.Duration(24+m.r.IntN(20*24))*time.Hour), false, false)
	}
}

// settle makes the events that end a hold, and returns the amount taken.
func (m *maker) settle(hold string, shop merchant, amount int64, at time.Time) (taken int64) {
	after := at.Add(time.Duration(1+m.r.IntN(72)) * time.Hour)
	switch n := m.r.IntN(100); {
	case n < 4:
		m.follow("void", hold, 0, after, false, false)
		return 0
	case n < 6: // forgotten
		return 0
	case n < 9: // late
		m.follow("capture", hold, amount, at.Add(8*24*time.Hour), true, true)
		return amount
	case n < 25 && shop.category == "restaurant": // a tip
		amount += amount / 10
		m.follow("capture", hold, amount, after, true, true)
		return amount
	case n < 40 && shop.category == "hotel":
		m.follow("increase", hold, amount/2+1, at.Add(24*time.Hour), false, false)
	case n < 55 && amount > 1: // less than the hold
		amount -= m.r.Int64N(amount/2 + 1)
	}
	m.follow("capture", hold, amount, after.Add(24*time.Hour), true, false)
	return amount
}

// follow makes an event about an earlier request.
func (m *maker) follow(kind, ref string, amount int64, at time.Time, final, force bool) {
	e := Event{Time: at, Kind: kind, ID: m.id(), Ref: ref, Currency: m.Currency, Final: final, Force: force}
	if kind != "void" {
		e.Amount = m.text(amount)
	}
	m.add(e)
}

func (m *maker) text(minor int64) string {
	return spend.Money{Minor: minor, Currency: m.Currency}.Decimal()
}

func (m *maker) write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%s; seed %d\n", Synthetic, m.Seed); err != nil {
		return err
	}
	c := csv.NewWriter(w)
	tags := []string{"merchant", "category", "country"}
	_ = c.Write(append(slices.Clone(columns), tags...)) // c.Error reports a failure
	mark := func(b bool) string {
		if b {
			return strconv.FormatBool(b)
		}
		return ""
	}
	for i := range m.events {
		e := &m.events[i]
		line := []string{
			e.Time.UTC().Format(time.RFC3339), e.Kind, e.ID, e.Account, e.Ref, e.Amount, e.Currency,
			mark(e.Final), mark(e.Force),
		}
		for _, t := range tags {
			line = append(line, e.Tags[t])
		}
		_ = c.Write(line)
	}
	c.Flush()
	return c.Error()
}
