package spend

import (
	"slices"
	"time"

	"github.com/brimgo/brim/spend/ledger"
)

// answer is the decision as its caller sees it.
func (x *decision) answer() (Decision, error) {
	out := Decision{Approved: len(x.declines) == 0, At: time.UnixMicro(x.now).UTC()}
	shown := make([][]Usage, len(x.accounts))
	for i, a := range x.accounts {
		for _, u := range a.rules {
			shown[i] = append(shown[i], u.report(a, x.now))
		}
		out.Remaining = append(out.Remaining, shown[i]...)
	}
	for _, d := range x.declines {
		a := x.accounts[d.account]
		wait, err := a.rules[d.rule].wait(a, d.n, x.now)
		if err != nil {
			return Decision{}, err
		}
		out.Declines = append(out.Declines, Decline{Usage: shown[d.account][d.rule], RetryAfter: wait})
		out.RetryAfter = max(out.RetryAfter, wait)
	}
	return out, nil
}

// encodeAnswer writes a decision for the day on which its request comes again.
func encodeAnswer(out *Decision, keys []string) []byte {
	e := newEncoder()
	e.bool(out.Approved)
	e.int(out.At.UnixMicro())
	e.int(int64(len(out.Remaining)))
	currency := "" // the same for all
	for _, u := range out.Remaining {
		if u.Limit.Currency != "" {
			currency = u.Limit.Currency
		}
	}
	e.string(currency)
	for _, u := range out.Remaining {
		e.int(int64(slices.IndexFunc(keys, func(key string) bool { return split(key) == u.Account })))
		e.string(u.Rule)
		e.bool(u.Limit.Currency == "")
		for _, m := range [...]Money{u.Limit, u.Used, u.Held, u.Remaining} {
			e.int(m.Minor)
		}
		grows := int64(0)
		if !u.GrowsAt.IsZero() {
			grows = u.GrowsAt.UnixMicro()
		}
		e.int(grows)
	}
	e.int(int64(len(out.Declines)))
	for _, d := range out.Declines {
		e.int(int64(slices.IndexFunc(out.Remaining, func(u Usage) bool { return u.Account == d.Account && u.Rule == d.Rule })))
		e.int(int64(d.RetryAfter))
	}
	return e.b
}

func decodeAnswer(r *ledger.Request) (Decision, error) {
	d := newDecoder("an answer", r.Answer)
	out := Decision{Approved: d.bool(), At: time.UnixMicro(d.int()).UTC()}
	n := d.count()
	currency := d.string()
	for range n {
		var u Usage
		if i := d.int(); i >= 0 && i < int64(len(r.Accounts)) {
			u.Account = split(r.Accounts[i])
		}
		u.Rule = d.string()
		c := currency
		if d.bool() {
			c = ""
		}
		for _, m := range [...]*Money{&u.Limit, &u.Used, &u.Held, &u.Remaining} {
			*m = Money{d.int(), c}
		}
		if grows := d.int(); grows != 0 {
			u.GrowsAt = time.UnixMicro(grows).UTC()
		}
		out.Remaining = append(out.Remaining, u)
	}
	for range d.count() {
		i, wait := d.int(), time.Duration(d.int())
		if i < 0 || i >= int64(len(out.Remaining)) {
			d.fail()
			break
		}
		out.Declines = append(out.Declines, Decline{Usage: out.Remaining[i], RetryAfter: wait})
		out.RetryAfter = max(out.RetryAfter, wait)
	}
	return out, d.err
}
