package decide

import (
	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
)

// chained returns the checksum of the entries of an account up to e, from that of the entries
// before. It has every field but the account, which may get another key.
func chained(before uint32, e *ledger.Entry) uint32 {
	b := book.Scratch()
	for _, n := range [...]int64{
		e.Seq, e.At, e.Dated, e.SpendAmount, e.Part, e.Amount, e.Asked, e.Least, e.TTL, e.Used, e.Held, e.Count, e.Expires, e.Pending,
	} {
		b.Int(n)
	}
	for _, s := range [...]string{e.Kind, e.RequestID, e.SpendID, e.Currency} {
		b.String(s)
	}
	b.Bool(e.Spends)
	b.Map(e.Tags)
	b.Strings(e.Refused)
	for _, c := range e.Credited {
		b.String(c.Rule)
		b.Fixed(c.Counts)
		b.Int(c.Amount)
	}
	return b.SumUp(before)
}
