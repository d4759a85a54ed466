package decide

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Answer is a decision; see spend.Decision.
type Answer struct {
	Accounts   []string // keys of the accounts
	At         int64
	Approved   bool
	Replayed   bool
	Canceled   bool
	Amount     money.Money
	Remaining  []Usage
	Declines   []Decline
	Crossed    []Crossing
	Shadow     []int // indices of the figures of rules that would have refused
	RetryAfter time.Duration
	AtLeast    bool
	Before     *Answer // to the request that was canceled, if rules had declined it
}

// Usage is the figures of a rule in an account.
type Usage struct {
	Account int // index
	figures.Usage
}

// Decline is a rule that refused, or an account that is frozen.
type Decline struct {
	Usage      int    // index of the rule's figures; -1 if an account is frozen
	Account    int    // index of the account that is frozen
	Frozen     string // why it is
	RetryAfter time.Duration
	AtLeast    bool
}

// Crossing is a share of a limit that the decision has crossed.
type Crossing struct {
	Usage int // index
	Share int
}

// canceledContent is the content of a request that was canceled. It is no digest.
var canceledContent = []byte(figures.KindCancel)

func isCanceled(r *ledger.Request) bool { return bytes.Equal(r.Content, canceledContent) }

// encodeCanceled returns the answer to a cancellation with that to the prior request, if it was
// declined. The cancellation is stored with the accounts of the prior request, by which both
// answers name theirs.
func encodeCanceled(answer []byte, prior *ledger.Request) []byte {
	of := ledger.Request{}
	if prior != nil && prior.Spend == nil {
		of = *prior
		of.Answer = book.Unsealed(of.Answer) // the new answer has a seal of its own
	}
	e := newEncoder()
	e.Bytes(answer)
	e.Int(of.At)
	e.Bytes(of.Answer)
	return e.B
}

// decodeCanceled returns the answer to a cancellation.
func decodeCanceled(r *ledger.Request) (out Answer, err error) {
	d := openAnswer(r)
	of := ledger.Request{At: r.At, Accounts: r.Accounts, Answer: d.Bytes()}
	prior := ledger.Request{Accounts: r.Accounts, At: d.Int(), Answer: d.Bytes()}
	if err = d.End(); err == nil {
		out, err = readAnswer(&of, book.NewDecoder(ofAnswer, format, of.Answer))
	}
	if err == nil && len(prior.Answer) > 0 {
		out.Before = new(Answer)
		*out.Before, err = readAnswer(&prior, book.NewDecoder(ofAnswer, format, prior.Answer))
	}
	return out, err
}

// replay returns the answer to a request that is sent again. If the request was canceled, it is
// declined, by the rules that declined it before.
func replay(r *ledger.Request) (out Answer, err error) {
	if isCanceled(r) {
		out, err = decodeCanceled(r)
		out.Approved, out.Canceled, out.Amount, out.RetryAfter = false, true, money.Money{}, store.Never
	} else {
		out, err = decodeAnswer(r)
	}
	out.Replayed = true
	return out, err
}

// The parts of a usage in an answer, beside its amounts.
const (
	isCount    = 1 << iota // its amounts are numbers of spends
	hasTag                 // it has a tag and a value
	hasGrows               // it has a GrowsAt
	hasRest                // Remaining is not the rest of the limit
	newAccount             // it is of another account than the usage before
	newRule                // no usage before has the name of its rule
	ofOthers               // it is of the values without sums of their own
)

// encode returns a decision in the form that the ledger keeps, for a
// request that is sent again. The request has the accounts and the time of the decision.
func (out *Answer) encode() []byte {
	e := newEncoder()
	e.Bool(out.Approved)
	currency := out.Amount.Currency
	for _, u := range out.Remaining {
		currency = cmp.Or(currency, u.Currency) // all amounts of money have the same
	}
	e.String(currency)
	e.Int(out.Amount.Minor)
	e.Bool(out.Amount == money.Money{})
	e.Int(int64(len(out.Remaining)))
	account := 0
	var names []string
	for i := range out.Remaining {
		u := &out.Remaining[i]
		names = u.encode(e, account, names, out.At)
		account = u.Account
	}
	e.Int(int64(len(out.Declines)))
	for _, d := range out.Declines {
		if d.Usage < 0 {
			e.Int(int64(-1 - d.Account))
			e.String(d.Frozen)
			continue
		}
		e.Int(int64(d.Usage))
		e.Int(int64(d.RetryAfter))
		e.Bool(d.AtLeast)
	}
	if len(out.Declines) > 0 {
		e.Int(int64(out.RetryAfter))
		e.Bool(out.AtLeast)
	}
	e.Int(int64(len(out.Crossed)))
	for _, c := range out.Crossed {
		e.Int(int64(c.Usage))
		e.Int(int64(c.Share))
	}
	e.Int(int64(len(out.Shadow)))
	for _, i := range out.Shadow {
		e.Int(int64(i))
	}
	return e.B
}

// encode writes a usage that follows others, the last of them of an account. It returns the names
// of the rules of all of them.
func (u *Usage) encode(e *book.Encoder, account int, names []string, at int64) []string {
	name := slices.Index(names, u.Rule)
	var has int64
	for i, is := range [...]bool{ // in the order of the flags
		u.Currency == "", u.Tag != "", !u.GrowsAt.IsZero(), u.Remaining != u.Limit-u.Used-u.Held,
		u.Account != account, name < 0, u.Others,
	} {
		if is {
			has |= 1 << i
		}
	}
	e.Int(has)
	if has&newAccount != 0 {
		e.Int(int64(u.Account))
	}
	if has&newRule != 0 {
		names = append(names, u.Rule)
		e.String(u.Rule)
	} else {
		e.Int(int64(name))
	}
	if has&hasTag != 0 {
		e.String(u.Tag)
		e.String(u.Value)
	}
	for _, n := range [...]int64{u.Limit, u.Used, u.Held} {
		e.Int(n)
	}
	if has&hasRest != 0 {
		e.Int(u.Remaining)
	}
	if has&hasGrows != 0 {
		e.Int(u.GrowsAt.UnixMicro() - at)
	}
	return names
}

// answerDecoder reads the answer to a request.
type answerDecoder struct {
	*book.Decoder
	r *ledger.Request
}

const ofAnswer = "an answer" // names it in errors

// openAnswer begins to decode the answer to a request, which is sealed together with all that is
// stored beside it, but for the keys of the accounts: an account may get another one.
func openAnswer(r *ledger.Request) *book.Decoder {
	return book.NewSealed(ofAnswer, format, r.Answer, besideAnswer(r))
}

func besideAnswer(r *ledger.Request) uint32 {
	e := book.Scratch()
	e.String(r.ID)
	e.Int(r.At)
	e.Int(int64(len(r.Accounts)))
	e.Bytes(r.Content)
	e.Bool(r.Spend != nil)
	return e.SumUp(0)
}

func decodeAnswer(r *ledger.Request) (Answer, error) { return readAnswer(r, openAnswer(r)) }

// readAnswer reads an answer that begins to be decoded.
func readAnswer(r *ledger.Request, from *book.Decoder) (Answer, error) {
	d := answerDecoder{from, r}
	out := Answer{Accounts: r.Accounts, At: r.At, Approved: d.Bool()}
	currency := d.String()
	if out.Amount = (money.Money{Minor: d.Int(), Currency: currency}); d.Bool() {
		out.Amount = money.Money{}
	}
	account := 0
	var names []string
	for range d.Count() {
		var u Usage
		u, names = d.usage(account, names, currency)
		account = u.Account
		out.Remaining = append(out.Remaining, u)
	}
	for range d.Count() {
		out.Declines = append(out.Declines, d.decline(len(out.Remaining)))
	}
	if len(out.Declines) > 0 {
		out.RetryAfter, out.AtLeast = time.Duration(d.Int()), d.Bool()
	}
	for range d.Count() {
		out.Crossed = append(out.Crossed, Crossing{d.index("rule", d.Int(), len(out.Remaining)), int(d.Int())})
	}
	for range d.Count() {
		out.Shadow = append(out.Shadow, d.index("rule", d.Int(), len(out.Remaining)))
	}
	return out, d.End()
}

// index returns i, which is the index of one of n. The index of one beyond them is damage.
func (d *answerDecoder) index(kind string, i int64, n int) int {
	if i < 0 || i >= int64(n) {
		d.Damaged("an answer names %s %d of %d", kind, i, n)
		return 0
	}
	return int(i)
}

func (d *answerDecoder) usage(account int, names []string, currency string) (u Usage, _ []string) {
	has := d.Int()
	if has < 0 || has >= 2*ofOthers {
		d.Damaged("an answer has a rule with %#x", has)
	}
	if u.Account = account; has&newAccount != 0 {
		u.Account = d.index("account", d.Int(), len(d.r.Accounts))
	}
	if has&newRule != 0 {
		names = append(names, d.String())
		u.Rule = names[len(names)-1]
	} else if i := d.index("name", d.Int(), len(names)); i < len(names) {
		u.Rule = names[i]
	}
	if has&hasTag != 0 {
		u.Tag, u.Value = d.String(), d.String()
	}
	u.Others = has&ofOthers != 0
	if u.Currency = currency; has&isCount != 0 {
		u.Currency = ""
	}
	u.Limit, u.Used, u.Held = d.Int(), d.Int(), d.Int()
	if u.Remaining = u.Limit - u.Used - u.Held; has&hasRest != 0 {
		u.Remaining = d.Int()
	}
	if has&hasGrows != 0 {
		u.GrowsAt = utc(d.r.At + d.Int())
	}
	return u, names
}

func (d *answerDecoder) decline(usages int) Decline {
	i := d.Int()
	if i < 0 {
		return Decline{Account: d.index("account", -1-i, len(d.r.Accounts)), Usage: -1, RetryAfter: store.Never, Frozen: d.String()}
	}
	return Decline{Usage: d.index("rule", i, usages), RetryAfter: time.Duration(d.Int()), AtLeast: d.Bool()}
}
