package spend

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/internal/figures"
	"github.com/brimgo/brim/spend/internal/money"
)

// Account names an account of a budget.
type Account struct {
	Budget string `json:"budget"`
	Name   string `json:"account"`
}

// Request asks for money, by [Budgets.Charge] or [Budgets.Authorize], or tells of money that has
// moved, by [Budgets.Record] or [Budgets.Credit].
type Request struct {
	// ID identifies the request in the whole ledger: 1 to 128 bytes of UTF-8 without control
	// characters, like the IDs of all requests of this package. Requests that are sent again with
	// the same ID have one effect. A request is the same if it means the same: the order of Also,
	// tags without a value, the scale of the amount, and a default that is written out change
	// nothing. Use at least 128 random bits. IDs that begin with the time, such as UUIDs of
	// version 7, cost a large ledger less.
	ID string
	// Account is the account to charge, in the main budget: UTF-8 without control
	// characters, up to 511 bytes together with the name of the budget. It may be
	// personal data, and no error contains it.
	Account string
	// Amount is positive, and in the currency of every budget concerned. Its scale
	// may be another, if the amount is exact in that of the budgets. A budget
	// with a [Leaky] rule accepts at most 2^53 minor units. Authorize takes 0, too.
	Amount Money
	// Tags describe the spend to rules with a filter: its merchant, category or
	// country. There are at most 16 tags, with names of 1 to 64 bytes and values
	// of up to 256 bytes.
	Tags map[string]string
	// Varying names tags that may differ, or be missing, when the request is sent again: the time
	// of the message, or its trace. The retry has the same Varying, and the tags of the first
	// request count. There are at most 16. Any other tag that differs is [ErrIDReused].
	Varying []string
	// Also names up to 15 accounts of further budgets that the same money counts
	// against. Either every account is charged, or none.
	Also []Account
	// Dated is the date at which the money counts, for money that was spent elsewhere before. It is
	// not in the future, and not so far back that Prune has removed entries of that date, or that
	// it is more than 2^53 microseconds before 1970; otherwise the error is [ErrRequest]. A [Leaky]
	// rule counts the money from now on. The zero time is now. Only Record, and an Authorize with
	// Forced, read it.
	Dated time.Time
	// OnExpiry tells the fate of the money if the hold expires; 0 means [ReleaseOnExpiry]. Only
	// Authorize, and UpTo with Hold, read it.
	OnExpiry Expiry
	// Forced holds the money whatever the rules say, also on a frozen account: somebody else has
	// authorized it already, such as a network that stood in, or the system that decided before.
	// The remaining amount of a rule may become negative. Only Authorize reads it.
	Forced bool
	// TTL is the lifetime of a hold, from a microsecond to 100 years; 0 means
	// [Options.HoldTTL]. Only Authorize, and UpTo with Hold, read it. A hold on an account with
	// many open holds may last up to a sixteenth longer; see [Status.ExpiresAt].
	TTL time.Duration
}

// Expiry is the fate of held money at the end of its hold's TTL.
type Expiry uint8

const (
	// ReleaseOnExpiry gives the money back: nobody has claimed it.
	ReleaseOnExpiry Expiry = iota + 1
	// SpendOnExpiry makes the money used at that moment, at the date of its authorization, for a
	// hold whose caller may die after the money has gone: a call of a provider that bills it. A
	// [Leaky] rule lets it leak from the expiry on, and [Count] rules count the spend. Refund gives
	// a part back.
	SpendOnExpiry
)

// UpToRequest asks for as much of an amount as fits.
type UpToRequest struct {
	Request       // Amount is the largest amount that the caller takes
	Least   Money // the smallest amount that the caller takes: positive, and at most Amount
	Hold    bool  // hold the money, as Authorize does, instead of charging it
}

// IncreaseRequest asks for more money on a hold.
type IncreaseRequest struct {
	ID     string // of this request
	HoldID string // of the Request that was authorized
	Amount Money  // to add, positive
	// Least, if set, lets Increase add as much of Amount as fits, if that is Least or more:
	// positive, and at most Amount.
	Least Money
}

// CaptureRequest takes held money.
type CaptureRequest struct {
	ID     string // of this request
	HoldID string // of the Request that was authorized
	Amount Money  // to take, positive; zero is allowed with Final
	Final  bool   // release the rest of the hold afterwards
	// Force takes the money even if the amount exceeds the hold, or if the hold has ended or
	// expired, but not if its expiry has spent it.
	Force bool
}

// DecreaseRequest releases a part of a hold.
type DecreaseRequest struct {
	ID     string // of this request
	HoldID string // of the Request that was authorized
	Amount Money  // to release, positive
}

// ExtendRequest lets a hold live longer.
type ExtendRequest struct {
	ID     string // of this request
	HoldID string // of the Request that was authorized
	// TTL is the lifetime of the hold from now on, from a microsecond to 100 years; 0 means
	// [Options.HoldTTL]. A hold that lives longer already stays as it is.
	TTL time.Duration
	// OnExpiry changes the fate of the money at the expiry; 0 leaves it as it is.
	OnExpiry Expiry
}

// VoidRequest releases the rest of a hold.
type VoidRequest struct {
	ID     string // of this request
	HoldID string // of the Request that was authorized
}

// RefundRequest gives back money that was captured, charged or recorded.
type RefundRequest struct {
	ID      string // of this request
	SpendID string // of the Request that began the spend
	Amount  Money  // to give back, positive
	Force   bool   // give back more than was captured; the rest counts as a credit
}

// ReverseRequest takes back a refund.
type ReverseRequest struct {
	ID      string // of this request
	SpendID string // of the Request that began the spend
	Amount  Money  // to take again, positive
}

// Charge spends the amount if every rule agrees. It authorizes and captures in
// one step.
//
// One atomic decision covers all rules and accounts. The decision uses the
// ledger's clock, and is as durable as the ledger when Charge returns. A decline
// is not an error: Approved is false, Declines names the rules that refused, and
// the accounts are not charged. If the same request is sent again, Charge returns
// the first decision with Replayed set. Other content under the same ID is
// [ErrIDReused].
//
// After [store.ErrUnknownOutcome], or an error of the context, the spend may
// have been decided. Send the same request again to learn the decision. Any
// other error means that nothing changed.
func (b *Budgets) Charge(ctx context.Context, r Request) (Decision, error) {
	return b.sendCharge(ctx, figures.KindSpend, r, nil)
}

// Authorize holds the amount if every rule agrees. Held money counts from now on, like spent
// money, but does not leak from a [Leaky] rule. Capture or Void ends the hold; otherwise it
// expires after its TTL. With [Request.Forced], no rule declines, and the money counts at the date
// of [Request.Dated]; the TTL begins now. An Authorize of 0, by which networks ask about a card,
// is decided like others, and [Count] rules count it; a [Leaky] rule takes it always. It holds
// nothing, so nothing expires. Retries and errors are those of [Budgets.Charge].
func (b *Budgets) Authorize(ctx context.Context, r Request) (Decision, error) {
	return b.sendCharge(ctx, figures.KindAuthorize, r, nil)
}

// UpTo charges or holds the largest part of the amount that every rule approves, in whole minor
// units, if that is Least or more. [Decision.Amount] tells it. If even Least does not fit, UpTo
// declines, and RetryAfter is that of Least. Retries and errors are those of [Budgets.Charge].
func (b *Budgets) UpTo(ctx context.Context, r UpToRequest) (Decision, error) {
	kind := figures.KindSpend
	if r.Hold {
		kind = figures.KindAuthorize
	}
	return b.sendCharge(ctx, kind, r.Request, &r.Least)
}

// Record notes money that has been spent already, now or at the date of
// [Request.Dated]. No rule declines it, and the remaining amount of a rule may
// become negative. A sum that a rule cannot count exactly is [ErrAmount]. Retries and errors are
// those of [Budgets.Charge].
//
// To bring usage from a table of your own, record each of its rows with its date, under an ID made
// from the key of the row: then it may be sent again. Bring its open holds by a forced Authorize.
func (b *Budgets) Record(ctx context.Context, r Request) (Decision, error) {
	return b.sendCharge(ctx, figures.KindRecord, r, nil)
}

// Increase holds more money on an open hold if every rule agrees. A [PerTransaction] rule judges
// the total; the other rules judge the added amount, which counts from now. All of the hold expires
// at the same time. With Least, the added amount is the largest that fits, and [Decision.Amount]
// tells it. A [Count] rule refuses it only while it counts more spends than its limit. Retries and
// errors are those of [Budgets.Charge]; further errors are [ErrUnknownSpend], [ErrHoldEnded] and
// [ErrHoldExpired].
func (b *Budgets) Increase(ctx context.Context, r IncreaseRequest) (Decision, error) {
	return b.sendFollowUp(ctx, decide.Action{Kind: figures.KindIncrease, ID: r.ID, SpendID: r.HoldID}, r.Amount, r.Least)
}

// Capture takes money from a hold, its oldest part first. Captured money keeps
// counting from the date of its authorization. The hold stays open until a
// capture is Final or nothing is left.
//
// An amount above the rest of the hold is [ErrExceeds]. A hold that has ended is [ErrHoldEnded] or
// [ErrHoldExpired]. With Force the money is taken in these cases too, whatever the rules say, and
// money that was not held counts from now; but not if the expiry of the hold has spent it, see
// [SpendOnExpiry]. A Final of 0 takes nothing, and remains that error. If nothing had been
// captured, [Count] rules count the spend from now. Retries and other errors are those of
// [Budgets.Charge]; a further error is [ErrUnknownSpend].
func (b *Budgets) Capture(ctx context.Context, r CaptureRequest) (Decision, error) {
	act := decide.Action{Kind: figures.KindCapture, ID: r.ID, SpendID: r.HoldID, Final: r.Final, Force: r.Force}
	return b.sendFollowUp(ctx, act, r.Amount)
}

// Decrease releases a part of a hold, its newest part first: the order became smaller, or the rest
// is known to cost less. The hold stays open and expires as before; a decrease by all that is held
// ends it. An amount above the rest of the hold is [ErrExceeds]. Retries and other errors are those
// of [Budgets.Increase].
func (b *Budgets) Decrease(ctx context.Context, r DecreaseRequest) (Decision, error) {
	return b.sendFollowUp(ctx, decide.Action{Kind: figures.KindDecrease, ID: r.ID, SpendID: r.HoldID}, r.Amount)
}

// Extend lets a hold live for its TTL from now on, if it would not live longer anyway, and changes
// the fate of the money at the expiry if OnExpiry is set. The held money keeps its dates. Retries
// and errors are those of [Budgets.Increase].
func (b *Budgets) Extend(ctx context.Context, r ExtendRequest) (Decision, error) {
	return b.sendFollowUp(ctx, decide.Action{Kind: figures.KindExtend, ID: r.ID, SpendID: r.HoldID, TTL: r.TTL, OnExpiry: decide.Expiry(r.OnExpiry)}, Money{})
}

// Void ends a hold and releases the rest of it. Retries and errors are those of
// [Budgets.Increase].
func (b *Budgets) Void(ctx context.Context, r VoidRequest) (Decision, error) {
	return b.sendFollowUp(ctx, decide.Action{Kind: figures.KindVoid, ID: r.ID, SpendID: r.HoldID}, Money{})
}

// Refund gives money back to the accounts of a spend. An amount above the captured, charged or
// recorded rest is [ErrExceeds]. A refund lowers the figures at the date of the spend, the
// newest part first; from a [Leaky] rule it drains the units that have not leaked yet. Retries and
// other errors are those of [Budgets.Charge]; a further error is [ErrUnknownSpend].
//
// With Force, Refund gives back more than was captured: a merchant returns more than he took. The
// excess counts as a [Budgets.Credit] with the tags and the amount of the spend, dated now. A spend
// that Prune has removed cannot be refunded. Send a Credit instead.
func (b *Budgets) Refund(ctx context.Context, r RefundRequest) (Decision, error) {
	return b.sendFollowUp(ctx, decide.Action{Kind: figures.KindRefund, ID: r.ID, SpendID: r.SpendID, Force: r.Force}, r.Amount)
}

// ReverseRefund takes back a refund, or a part of it: the merchant has withdrawn it. The money
// counts again at the date of its spend, and in a [Leaky] rule from now on. It has moved already,
// so no rule declines it, and the remaining amount of a rule may become negative. A reversal of all
// refunds restores the spend. One of a part takes the money of the oldest part of the spend first.
// After a Cancel of the spend, no refund of it can be reversed, also no later one.
//
// An amount above the rest of the refunds is [ErrExceeds]. The excess of a forced refund was a
// credit, which is never reversed: Record takes the money. Nor does ReverseRefund take money again
// that Cancel gave back: a forced Capture does. In a rule with [Rule.CountsCredits], the money
// counts also if credits had paid for it before the refund, which then made no room. A sum that a
// rule cannot count exactly is [ErrAmount]. Retries and other errors are those of [Budgets.Refund].
func (b *Budgets) ReverseRefund(ctx context.Context, r ReverseRequest) (Decision, error) {
	return b.sendFollowUp(ctx, decide.Action{Kind: figures.KindReverse, ID: r.ID, SpendID: r.SpendID}, r.Amount)
}

const (
	maxID       = 128
	maxTags     = 16
	maxTag      = 64
	maxTagValue = 256
	maxAccounts = 16
)

func checkID(field, id string) error {
	if id == "" || len(id) > maxID || !validText(id) {
		return requestErr("%s must be 1 to %d bytes of UTF-8 without control characters", field, maxID)
	}
	return nil
}

// sendCharge decides a request that begins a spend. Only UpTo has a least amount.
func (b *Budgets) sendCharge(ctx context.Context, kind string, r Request, least *Money) (_ Decision, err error) {
	method := kind
	switch {
	case least != nil:
		method = "up_to"
	case kind == figures.KindSpend:
		method = "charge"
	case kind == figures.KindAuthorize && r.Forced:
		method = "authorize_forced"
	}
	c := b.begin(ctx, method)
	defer c.end(&err)
	act, err := b.charging(c.ctx, kind, r, least)
	if err != nil {
		return Decision{}, err
	}
	return c.decided(b.decider.Decide(c.ctx, act))
}

// charging checks r, and returns the action that the ledger decides.
func (b *Budgets) charging(ctx context.Context, kind string, r Request, least *Money) (*decide.Action, error) {
	if err := checkID("ID", r.ID); err != nil {
		return nil, err
	}
	if least != nil {
		r.Forced = false
	}
	act, err := b.newCharge(ctx, kind, r)
	if err != nil {
		return nil, err
	}
	if least != nil {
		in, err := b.inUnit(*least)
		if err != nil {
			return nil, err
		}
		if act.Least, err = leastOf(act, in); err != nil {
			return nil, err
		}
	}
	b.decider.Seal(act)
	return act, nil
}

// inOneUnit gives an action and its least amount the finer one of their scales.
func inOneUnit(act *decide.Action, least Money) (Money, error) {
	amount := Money{act.Amount, act.Currency}
	places, _ := money.Places(least.Currency)
	finer, _ := money.Places(amount.Currency)
	if finer >= places {
		return least.In(amount.Currency)
	}
	amount, err := amount.In(least.Currency)
	act.Amount, act.Currency = amount.Minor, amount.Currency
	return least, err
}

// leastOf returns the least amount of UpTo or Increase, which is in the unit of the action.
func leastOf(act *decide.Action, least Money) (int64, error) {
	amount := Money{act.Amount, act.Currency}
	switch {
	case least.Minor <= 0 || least.Minor > amount.Minor:
		return 0, fmt.Errorf("spend: %w: Least is %v; it must be positive and at most %v", ErrAmount, least, amount)
	case least.Currency != amount.Currency:
		return 0, fmt.Errorf("spend: %w: Least is in %.8q and the amount in %.8q", ErrCurrency, least.Currency, amount.Currency)
	}
	return least.Minor, nil
}

// newCharge checks r except for the ID. The action holds copies, because a
// decision may still run after its caller has left.
func (b *Budgets) newCharge(ctx context.Context, kind string, r Request) (*decide.Action, error) {
	amount, err := b.inUnit(r.Amount)
	if err != nil {
		return nil, err
	}
	act, err := newAction(kind, r, amount)
	if err != nil {
		return nil, err
	}
	accounts := append([]Account{{b.main.Name, r.Account}}, r.Also...)
	if len(accounts) > maxAccounts {
		return nil, requestErr("the request names %d accounts; at most %d are decided together", len(accounts), maxAccounts)
	}
	for _, account := range accounts {
		if err := b.addAccount(ctx, act, account); err != nil {
			return nil, err
		}
	}
	if act.Amount < 0 || act.Amount == 0 && kind != figures.KindAuthorize {
		return nil, fmt.Errorf("spend: %w: %v; it must be positive", ErrAmount, r.Amount)
	}
	if err := cmp.Or(checkTTL(act.TTL), checkExpiry(act.OnExpiry)); err != nil {
		return nil, err
	}
	return act, cmp.Or(checkTags(act.Tags), checkVarying(act.Varying))
}

// newAction returns the action of r without its accounts.
func newAction(kind string, r Request, amount Money) (*decide.Action, error) {
	act := &decide.Action{Kind: kind, ID: r.ID, Amount: amount.Minor, Currency: amount.Currency, Tags: maps.Clone(r.Tags), Varying: r.Varying}
	if kind == figures.KindAuthorize {
		act.TTL, act.Force, act.OnExpiry = r.TTL, r.Forced, decide.Expiry(cmp.Or(r.OnExpiry, ReleaseOnExpiry))
	}
	if (kind == figures.KindRecord || act.Force) && !r.Dated.IsZero() {
		if !storable(r.Dated) {
			return nil, requestErr("Dated is in the year %d; %s", r.Dated.Year(), storableYears)
		}
		act.Backdated, act.Dated = true, r.Dated.UnixMicro()
	}
	return act, nil
}

// addAccount adds an account to an action that has its amount.
func (b *Budgets) addAccount(ctx context.Context, act *decide.Action, account Account) error {
	budget, err := b.decider.Find(ctx, account.Budget)
	if err != nil {
		return err
	}
	if budget.Currency != act.Currency {
		return fmt.Errorf("spend: %w: the amount is in %.8q and budget %q in %q",
			ErrCurrency, act.Currency, budget.Name, budget.Currency)
	}
	key, err := keyOf(budget, account.Name)
	if err != nil {
		return err
	}
	if slices.Contains(act.Keys, key) {
		return requestErr("the request names an account twice")
	}
	act.Keys = append(act.Keys, key)
	return nil
}

// storable reports whether a time of a request is in the range of the times of brim: up to 2^53
// microseconds before and after 1970. Far outside of this range, UnixMicro wraps around.
func storable(t time.Time) bool {
	return !t.Before(time.UnixMicro(-furthest)) && !t.After(time.UnixMicro(furthest))
}

const (
	furthest      = 1 << 53
	storableYears = "it must be after July 1684 and before June 2255"
)

func checkTTL(ttl time.Duration) error {
	if ttl != 0 && (ttl < time.Microsecond || ttl > maxWindow) {
		return requestErr("TTL is %v; it must be from a microsecond to 100 years, or 0 for the default", ttl)
	}
	return nil
}

func checkExpiry(e decide.Expiry) error {
	if e > decide.SpendOnExpiry {
		return requestErr("OnExpiry is %d; it must be ReleaseOnExpiry, SpendOnExpiry, or 0", e)
	}
	return nil
}

func checkTags(tags map[string]string) error {
	if len(tags) > maxTags {
		return requestErr("the request has %d tags; it may have %d", len(tags), maxTags)
	}
	for tag, value := range tags {
		if !validTag(tag) || len(value) > maxTagValue || !validText(value) {
			return requestErr("a tag must be 1 to %d bytes and its value up to %d bytes of UTF-8 without control characters",
				maxTag, maxTagValue)
		}
	}
	return nil
}

func checkVarying(tags []string) error {
	if len(tags) > maxTags || slices.ContainsFunc(tags, func(tag string) bool { return !validTag(tag) }) {
		return requestErr("Varying must be up to %d names of tags, of 1 to %d bytes of UTF-8 without control characters", maxTags, maxTag)
	}
	return nil
}

func validTag(tag string) bool { return tag != "" && len(tag) <= maxTag && validText(tag) }

// sendFollowUp decides a request about an earlier spend.
func (b *Budgets) sendFollowUp(ctx context.Context, act decide.Action, amount Money, least ...Money) (_ Decision, err error) {
	method, field := act.Kind, "HoldID"
	switch act.Kind {
	case figures.KindRefund:
		field = "SpendID"
	case figures.KindReverse:
		method, field = "reverse_refund", "SpendID"
	}
	c := b.begin(ctx, method)
	defer c.end(&err)
	err = cmp.Or(checkTTL(act.TTL), checkExpiry(act.OnExpiry), checkID("ID", act.ID), checkID(field, act.SpendID))
	if err == nil && act.Kind != figures.KindVoid && act.Kind != figures.KindExtend {
		err = setAmount(&act, amount)
	}
	for _, m := range least {
		if err == nil && m != (Money{}) {
			if m, err = inOneUnit(&act, m); err == nil {
				act.Least, err = leastOf(&act, m)
			}
		}
	}
	if err != nil {
		return Decision{}, err
	}
	b.decider.Seal(&act)
	return c.decided(b.decider.Decide(c.ctx, &act))
}

// setAmount checks the amount of a request about an earlier spend, and gives it to the action.
func setAmount(act *decide.Action, amount Money) error {
	if amount.Minor < 0 || amount.Minor == 0 && !act.Final {
		zero := ""
		if act.Kind == figures.KindCapture {
			zero = ", or zero with Final"
		}
		return fmt.Errorf("spend: %w: %v; it must be positive%s", ErrAmount, amount, zero)
	}
	if _, ok := money.Places(amount.Currency); !ok {
		return unknownCurrency(amount.Currency)
	}
	act.Amount, act.Currency = amount.Minor, amount.Currency
	return nil
}

// Credit notes money that came in and is no refund of a spend: a payment to the card, a salary, a
// reward. It is never declined, also not by a frozen account. It ignores TTL and Dated: a credit is
// dated now.
//
// A rule with [Rule.CountsCredits] counts the credit if the credit passes the filters of the rule.
// It counts at most the used amount that the rule has at that moment. The rest makes no room, now
// or later. From a [Leaky] rule, the counted part drains units. In a [Calendar] or [Lifetime] rule
// it lowers Used, and a later refund lowers Used further, never below 0. If the period of a
// Calendar rule begins earlier in another zone, the rule counts the spends of the period
// anew and no credit of before.
//
// Retries and errors are those of [Budgets.Charge]. The ID begins no spend: a credit cannot be
// refunded.
func (b *Budgets) Credit(ctx context.Context, r Request) (Decision, error) {
	return b.sendCharge(ctx, figures.KindCredit, r, nil)
}

// Cancel undoes the Charge, Authorize, UpTo or Record with an ID, and needs no other content of it
// than its account, in the main budget. Call it if the deadline of a request has passed without an
// answer. It makes no difference whether the request was decided, is in flight elsewhere, or was
// never sent: after Cancel its ID holds and spends nothing for [Options.KeepIDs] from now on.
// Whoever sends the request afterwards is declined, with [Decision.Canceled] set. If
// [Budgets.Prune] has removed the ID of an old spend, Cancel does not find that spend: it goes on
// counting.
//
// Cancel releases the money that the request holds, with its increases, and gives back the money
// that was taken, at the date of the spend. [Count] rules without [Rule.CountsVoids] do not count
// the spend any more. [Decision.Amount] is the sum.
//
// Money that has moved all the same is still taken: by a forced Capture of the ID, and, if the
// request began no spend before its cancellation, by a Record or a forced Authorize with the ID.
// These two come too late once a forced Capture has taken money. Of a request that began no spend,
// a forced Capture takes the money from the account of the Cancel alone, without tags, and the
// amount of the first one is that of the spend.
//
// The decision about a Cancel has Canceled set. A Cancel that is sent again returns the first
// decision, with Replayed set, and so does the request itself, with the time of the Cancel, also if
// it arrives for the first time. [Budgets.Get] shows a spend of 0 that is canceled. After a later
// Record with the ID, another Cancel is a new one. A request of another account is [ErrRequest].
// The ID of a request that was approved and began no spend, such as an increase, is [ErrIDReused].
// Other errors are those of [Budgets.Charge].
func (b *Budgets) Cancel(ctx context.Context, id, account string) (_ Decision, err error) {
	c := b.begin(ctx, "cancel")
	defer c.end(&err)
	act, err := b.newUpkeep(figures.KindCancel, id, account)
	if err != nil {
		return Decision{}, err
	}
	act.SpendID = id
	return c.decided(b.decider.Decide(c.ctx, act))
}
