package brim

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/internal/shadow"
	"github.com/brimgo/brim/store"
)

// Limiter fills buckets of one store and asks for their state. Make one with [New]. Every method of
// a zero Limiter answers [ErrClosed].
//
// Any number of goroutines may share a Limiter, and any number of Limiters may share a store: a
// Limiter keeps no bucket, only the lines of callers that are in [Limiter.Wait]. If the context is
// already done, a method returns the context's error and changes nothing.
type Limiter struct {
	store    store.Store
	head     string // what the store's names have before the caller's keys
	asStored bool
	penalty  time.Duration
	shadow   func(context.Context, Fill, error)
	maxWait  time.Duration // of Wait
	lines    *lines
	ahead    *atomic.Int64 // nanoseconds by which the store's clock was ahead of the process's when it said so
}

// Options adjust a [Limiter]. The zero value is the default.
type Options struct {
	// Prefix keeps the buckets of programs that share a store apart: Limiters with different
	// prefixes, and those without one, have no bucket in common, whatever the keys. The store
	// names the bucket of key "user:7" and prefix "app:" "@4:app:user:7", with the length of the
	// prefix. Without a prefix it has the key's name, and a key that begins with "@" gets another
	// "@". The characters before a key count towards its 512 bytes.
	Prefix string

	// MaxWait is the longest wait of [Limiter.Wait], whatever the context's deadline. An amount
	// that would wait longer is refused. 0 means an hour.
	MaxWait time.Duration

	// AsStored puts Prefix before every key as it is, and nothing else, so that keys without a
	// prefix are the store's names of all buckets. It is for operators' tools. The keys of clients
	// could name the buckets of another program.
	AsStored bool

	// Shadow tries limits without enforcing them. If it is set, TryFillup, TryFillupAll, TakeUpTo,
	// AbleToAccept, Do and Wait accept every amount at once, and TakeUpTo the most. The store
	// decides and changes its buckets as if the limits were enforced: an amount that does not fit
	// stays outside, and a penalty blocks the bucket. The State keeps the RetryAfter of the
	// refusal; no other State that is accepted has one.
	//
	// Shadow is called for each fill whose bucket has no room for it, with an [*OverLimitError],
	// and for each fill that the store failed to decide, with the store's error. After a failure,
	// units may have gone in if the error is [ErrUnknownOutcome]; the State is that of an empty
	// bucket and has Estimate set. AskOnly tells a question from a TryFillup. The function runs on
	// the goroutine of the caller and gets its context, so it must be quick and safe for
	// concurrent use.
	//
	// An invalid argument and the end of the caller's own context are no failures of the store. The
	// methods return these errors and do not call Shadow. All other methods are as without Shadow,
	// and return the errors of the store. But Hold, Acquire, and the turns of a [Shaper], answer
	// [errors.ErrUnsupported]: an amount that does not fit reserves no room and has no turn.
	//
	// A penalty is stored with the bucket. If the store has enforced limits as well, give the
	// buckets of tried limits keys of their own, by Prefix for instance. The calls of Shadow count
	// the refusals of a limit under which no caller changes its behavior. Under an enforced limit,
	// callers that are refused come back later, or leave.
	Shadow func(ctx context.Context, f Fill, err error)
}

// New returns a Limiter over s, which is a backend or a wrapper around one. The caller closes
// s. If s is nil, every method answers [ErrClosed]. The options may be nil.
func New(s store.Store, o *Options) *Limiter {
	l := &Limiter{store: s, maxWait: time.Hour, lines: &lines{byKey: make(map[string]*line)}, ahead: new(atomic.Int64)}
	if o != nil {
		l.head, l.asStored, l.shadow = o.Prefix, o.AsStored, o.Shadow
		if o.MaxWait > 0 {
			l.maxWait = o.MaxWait
		}
	}
	if s == nil {
		l.shadow = nil
	}
	if l.head != "" && !l.asStored {
		l.head = fmt.Sprintf("%s%d:%s", mark, len(l.head), l.head)
	}
	return l
}

// TryFillup puts n units into b if they fit wholly, and none if they do not.
//
// The decision is atomic and uses the store's clock: however many processes share b, the units
// that they are granted in any interval never exceed the room in b at its start plus the units
// that leak or are given back during the interval. A refusal is not an error: Accepted is
// false, and RetryAfter is the wait until n would fit if no other caller came, or [Never]. An
// amount that fills b exactly is accepted. An n of 0 is always accepted and writes nothing. Callers
// that wait have booked their units in b already; see [Limiter.Wait].
//
// If the error is [ErrUnknownOutcome], n may have gone in. After any other error it did not.
func (l *Limiter) TryFillup(ctx context.Context, b Bucket, n float64) (st State, err error) {
	err = l.fill(ctx, &st, &store.Op{Bucket: b, Amount: n, Mode: store.IfFits}, n)
	return st, err
}

// Fillup puts n units into b up to its capacity. The excess is lost and reported as Spilled.
// Use it to count events that have already happened, which no limit can refuse. Accepted is false
// if units spilled, or if b is blocked; the units go into a blocked bucket all the same.
//
// Full reports that this call filled b to its capacity. Because b leaks, it is full only for an
// instant, and a later call cannot find out that it was full.
//
// If the error is [ErrUnknownOutcome], n may have gone in. After any other error it did not.
func (l *Limiter) Fillup(ctx context.Context, b Bucket, n float64) (st State, err error) {
	err = l.fill(ctx, &st, &store.Op{Bucket: b, Amount: n, Mode: store.Clamp}, n)
	return st, err
}

// AbleToAccept reports, in State.Accepted, whether n units would fit into b now. If they would
// not, RetryAfter is the wait until they would. A TryFillup at the same moment would return the
// same Accepted. The Level is that of b without the n units.
//
// AbleToAccept writes nothing, sets no penalty and reserves nothing: another caller may fill b
// before the answer arrives. To decide and fill in one step, use [Limiter.TryFillup]. The leak rate
// of b is not written either. So RetryAfter is by the rate last written, which State.LeakRate
// shows, until a call puts units in or is refused.
func (l *Limiter) AbleToAccept(ctx context.Context, b Bucket, n float64) (st State, err error) {
	err = l.fill(ctx, &st, &store.Op{Bucket: b, Amount: n, Mode: store.Ask}, n)
	return st, err
}

// State reports the level and the held units of b now. It writes nothing, and Accepted and Full
// are false. A bucket that was never filled is empty.
func (l *Limiter) State(ctx context.Context, b Bucket) (State, error) {
	b.Key = l.key(b.Key)
	if err := b.Validate(); err != nil {
		return State{}, err
	}
	if b.Calendar() {
		return l.statePeriod(ctx, b)
	}
	if !isSpecial(&b.Limit) {
		return first(l.kept().Read(ctx, b))
	}
	st, err := first(l.kept().Read(ctx, Bucket{Key: b.Key}))
	if err == nil {
		setSpecialCapacity(&st, b.Limit)
	}
	return st, err
}

// StateOf reports the state of the bucket with that key by the limit last written to it. It is
// for tools that do not know the limit. A Capacity of 0 means that there is no such bucket. It
// writes nothing.
func (l *Limiter) StateOf(ctx context.Context, key string) (State, error) {
	key = l.key(key)
	if err := store.ValidateKey(key); err != nil {
		return State{}, err
	}
	return first(l.kept().Read(ctx, Bucket{Key: key}))
}

// Drain takes up to n units out of b; the level does not fall below zero. Use it to give units
// back, or to correct a count. Draining an empty bucket changes nothing.
//
// If the error is [ErrUnknownOutcome], n may have been taken out. After any other error it was
// not.
func (l *Limiter) Drain(ctx context.Context, b Bucket, n float64) (st State, err error) {
	err = l.fill(ctx, &st, &store.Op{Bucket: b, Amount: -n, Mode: store.Always}, n)
	return st, err
}

// Hold reserves room for n units in b if they fit wholly, and none if they do not.
// Held units take up room and do not leak until [Limiter.Capture] or [Limiter.Release] ends the
// hold.
//
// The bucket stores only the sum of its holds. The caller must remember each hold and end it;
// package spend keeps that record and lets holds expire.
//
// An n below 2^-38 of the capacity is [ErrInvalidAmount]. If the error is [ErrUnknownOutcome], n
// may be held. After any other error it is not.
func (l *Limiter) Hold(ctx context.Context, b Bucket, n float64) (st State, err error) {
	err = l.fill(ctx, &st, &store.Op{Bucket: b, Hold: n, Mode: store.IfFits}, n)
	return st, err
}

// Capture ends a hold of held units and puts used units in, which begin to leak. Used may be
// less or more than held; the level may then exceed the capacity. If b holds fewer than held
// units, the error is [ErrNotHeld] and nothing changes.
//
// If the error is [ErrUnknownOutcome], the hold may have ended. After any other error it has
// not.
func (l *Limiter) Capture(ctx context.Context, b Bucket, held, used float64) (st State, err error) {
	err = l.fill(ctx, &st, &store.Op{Bucket: b, Amount: used, Hold: -held, Mode: store.Always}, min(held, used))
	st.Full = false // Full answers a fill; a capture of 0 held units looks like one to the store
	return st, err
}

// Release ends a hold of n units and frees their room. If b holds fewer than n units, the error
// is [ErrNotHeld] and nothing changes.
//
// If the error is [ErrUnknownOutcome], the hold may have ended. After any other error it has
// not.
func (l *Limiter) Release(ctx context.Context, b Bucket, n float64) (st State, err error) {
	err = l.fill(ctx, &st, &store.Op{Bucket: b, Hold: -n, Mode: store.Always}, n)
	return st, err
}

// TakeUpTo puts the largest whole number of units from least to most into b that fits, and none if
// least does not fit. State.Taken is the number; it is 0 after a refusal, and RetryAfter is then
// the wait until least would fit. The decision is atomic, as that of TryFillup. Use it for work
// that can be done in part: as many rows of a batch as the limit has room for. Units that are not
// whole, such as dollars, are counted in smaller ones, such as cents.
//
// Both numbers are whole, and least is from 1 to most; otherwise the error is [ErrInvalidAmount].
//
// If the error is [ErrUnknownOutcome], up to most units may have gone in. After any other error
// none did.
func (l *Limiter) TakeUpTo(ctx context.Context, b Bucket, least, most float64) (st State, err error) {
	err = l.fill(ctx, &st, &store.Op{Bucket: b, Amount: most, Least: least, Mode: store.UpTo}, least)
	return st, err
}

// Fill is an amount for a bucket, for [Limiter.TryFillupAll].
type Fill struct {
	Bucket Bucket  // the bucket to fill, with its limit
	Amount float64 // units, from 0 to 2^53
	// AskOnly makes the amount count in the decision and not go in: it must fit as well, beside the
	// other amounts for its bucket. If it is refused, a changed leak rate takes effect, as it does
	// after any refusal of TryFillupAll.
	AskOnly bool
}

func (f *Fill) mode() store.Mode {
	if f.AskOnly {
		return store.Ask
	}
	return store.IfFits
}

// TryFillupAll puts every amount into its bucket if all of them fit, and changes nothing if one
// does not. The step is atomic. Use it for limits that apply together: those of a card, its
// account and the whole company. It returns one State per fill, in the order given.
//
// Accepted is the same in all states. After a refusal only the buckets that refused have a
// RetryAfter, so RetryAfter tells which limit refused. Amounts for one key add up. One key with
// two limits is [ErrInvalidLimit]. Callers may name any buckets in any order without a
// deadlock. Without fills, TryFillupAll returns nil and does not call the store.
//
// If the error is [ErrUnknownOutcome], all amounts may have gone in. After any other error none
// did.
func (l *Limiter) TryFillupAll(ctx context.Context, fills ...Fill) ([]State, error) {
	if len(fills) == 0 {
		return nil, nil
	}
	if l.shadow != nil {
		return l.tryFillupAllShadow(ctx, fills)
	}
	for i := range fills {
		if isSpecial(&fills[i].Bucket.Limit) {
			return l.tryFillupSpecial(ctx, fills)
		}
	}
	decided, index, err := l.decideFills(ctx, fills)
	if err != nil {
		return nil, err
	}
	states := make([]State, len(fills))
	for i := range fills {
		states[i] = decided[index[i]]
	}
	return states, nil
}

// decide lets the store decide about a transaction.
func (l *Limiter) decide(ctx context.Context, txn store.Txn) (states []State, err error) {
	if len(txn) == 1 { // a store decides about one bucket faster than about a list of one
		states = make([]State, 1)
		states[0], err = l.store.Fill(ctx, txn[0])
	} else if results, failed := l.store.Apply(ctx, txn); failed != nil {
		err = failed
	} else {
		states, err = results[0].States, results[0].Err
	}
	if err != nil {
		return nil, err
	}
	for i := range txn {
		n := 0.0 // of all operations on the bucket
		for j := range txn {
			if txn[j].Key == txn[i].Key {
				n += txn[j].Amount
			}
		}
		l.applyRate(ctx, &txn[i], n, &states[i])
	}
	return states, nil
}

// applyRate follows a question that has kept n units out of a bucket, under another rate than the
// one last written, with a fill that cannot fit: its refusal writes the rate. Without it, a limit
// that is only asked about would never take effect on a full bucket. A limit that Shadow tries must
// have no effect, and an estimate need not show the rate of the store. If the fill fails, the
// answer to the question stays, and the next caller tries again.
func (l *Limiter) applyRate(ctx context.Context, op *store.Op, n float64, st *State) {
	if op.Mode != store.Ask || st.RetryAfter == 0 || st.Limit().LeakRate == op.LeakRate || n > op.Capacity ||
		st.BlockedUntil.After(st.At) || st.Estimate || shadow.In(ctx) {
		return
	}
	fill := *op
	fill.Mode, fill.Ceiling = store.IfFits, 1e-300
	if now, err := l.store.Fill(ctx, fill); err == nil {
		now.RetryAfter = max(time.Microsecond, now.When(n))
		*st = now
	}
}

// merge returns a transaction with one operation per key and mode. The operation of fills[i] is
// txn[index[i]]. Each fill is validated by itself, because a sum can hide a negative amount, or
// an amount that is lost in rounding.
//
// A quota of the calendar is set to the period of its time in at, which may be nil where there is
// none.
func (l *Limiter) merge(fills []Fill, at []time.Time) (txn store.Txn, index []int, err error) {
	txn = make(store.Txn, 0, len(fills))
	index = make([]int, len(fills))
	type member struct {
		Bucket
		begins int64
		store.Mode
	}
	seen := make(map[member]int, len(fills))
	for i, f := range fills {
		op := store.Op{Bucket: f.Bucket, Amount: f.Amount, Mode: f.mode()}
		if at != nil {
			if err := op.SetPeriod(at[i]); err != nil {
				return nil, nil, err
			}
		}
		if err := l.prepare(&op, f.Amount); err != nil {
			return nil, nil, err
		}
		at, ok := seen[member{op.Bucket, op.Begins, op.Mode}]
		if ok {
			txn[at].Amount += f.Amount
		} else {
			at = len(txn)
			seen[member{op.Bucket, op.Begins, op.Mode}] = at
			txn = append(txn, op)
		}
		index[i] = at
	}
	return txn, index, txn.Validate()
}

// Do puts n units into b if they fit, then calls f and returns the error of f. If the units do
// not fit, Do does not call f and returns an [*OverLimitError]. If the store fails, Do does not
// call f either and returns the store's error.
//
// The units stay in b even if f fails: the attempt counts. To give them back, use
// [Limiter.Drain].
func (l *Limiter) Do(ctx context.Context, b Bucket, n float64, f func(context.Context) error) error {
	st, err := l.TryFillup(ctx, b, n)
	switch {
	case err != nil:
		return err
	case !st.Accepted:
		return &OverLimitError{st}
	}
	return f(ctx)
}

// Block keeps everybody out of the bucket with that key for d on the store's clock, or
// [UntilEmpty]: nothing fits into a blocked bucket, and only Fillup still counts. The level and the
// held units stay as they are. Use Block to stop a caller by hand. [Limiter.WithPenalty] blocks a
// bucket after an overflow.
//
// The block is stored with the bucket, so all processes respect it. If there is no such bucket,
// Block creates it. Block prolongs an earlier block and never shortens it; [Limiter.Unblock] ends
// it. From [Never] on, d is for ever. The State is by the limit last written to the bucket, and
// reports the end as BlockedUntil. If d is below a microsecond and not UntilEmpty, the error is
// [ErrInvalidLimit]. The store does not keep the reason for a block; WithReason in package observe
// passes it to a log.
//
// If the error is [ErrUnknownOutcome], the bucket may be blocked. After any other error it is not.
func (l *Limiter) Block(ctx context.Context, key string, d time.Duration) (st State, err error) {
	err = l.fill(ctx, &st, &store.Op{Bucket: Bucket{Key: key}, BlockFor: d, Mode: store.Block}, 0)
	st.Accepted = false // no amount was decided
	return st, err
}

// Unblock ends the block of the bucket with that key, whoever set it, and leaves its level and its
// held units as they are; [Limiter.Reset] removes those, too. It returns the state by the limit
// last written to the bucket. If the bucket has no block, or does not exist, Unblock changes
// nothing.
//
// If the error is [ErrUnknownOutcome], the block may have ended. After any other error it has not.
func (l *Limiter) Unblock(ctx context.Context, key string) (st State, err error) {
	err = l.fill(ctx, &st, &store.Op{Bucket: Bucket{Key: key}, Mode: store.Unblock}, 0)
	st.Accepted = false
	return st, err
}

// Wrap returns a Limiter with the same prefix, penalty and shadow over the store that wrap returns
// for the Limiter's own, for instance a local.Fallback for the handlers that may fail open, or a
// Store of package observe. Both Limiters have the same buckets. An error of wrap is returned as it
// is.
func (l *Limiter) Wrap(wrap func(store.Store) (store.Store, error)) (*Limiter, error) {
	s, err := wrap(l.kept())
	if err != nil {
		return nil, err
	}
	with := *l
	with.store = s
	return &with, nil
}

// WithPenalty returns a Limiter over the same store, with the same prefix, that blocks a bucket
// after an overflow. An overflow is a TryFillup, TryFillupAll, TakeUpTo, Fillup, Hold or Do whose
// amount does not fit. Each bucket that has no room for its amount is blocked for d on the store's
// clock, or [UntilEmpty]. Nothing fits into a blocked bucket; only Fillup still counts.
//
// The block is stored with the bucket, so all processes respect the block, and it lasts as long
// as the stored bucket does. An overflow while it lasts writes nothing and does not prolong it: a
// caller who keeps trying gets in when it ends. State.BlockedUntil is the end of the block,
// RetryAfter includes it, and [Limiter.Unblock] or [Limiter.Reset] lifts it. A Limiter without a
// penalty sets no block, but respects the blocks that it finds. A block leaves the turns of callers
// that are in [Limiter.Wait] as they are; later callers wait until it ends.
//
// Over a store that is part of a transaction, such as that of With in package postgres, the block
// is part of the transaction, too: a rollback loses the block. To keep it, charge before the
// transaction writes anything else, and commit the transaction after a refusal.
//
// A d of 0 sets no penalty. If d is below a microsecond and neither 0 nor UntilEmpty, those six
// methods return [ErrInvalidLimit]. A refusal that sets a block is a write and costs as much as an
// accepted call.
func (l *Limiter) WithPenalty(d time.Duration) *Limiter {
	with := *l
	with.penalty = d
	return &with
}

// List returns the Limiter's buckets whose keys start with prefix, each once, with its state by
// the limit last written. Keys are without the Limiter's own prefix. The buckets of Limiters with
// another prefix do not belong to it; see [Options.AsStored]. The order is the store's: memory and
// Redis have none, and bolt, sqlite and postgres list in byte order of key. An error ends the
// listing. If single buckets are damaged, List yields all others first, and then an error that is
// [ErrCorrupt].
//
// List is for operators. It passes over the store once. It holds no lock while
// the caller handles a bucket, so the caller may take its time, and may write to the store. The
// listing may or may not show changes that are made meanwhile.
func (l *Limiter) List(ctx context.Context, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		prefix := l.name(prefix)
		if prefix != "" {
			if err := store.ValidateKey(prefix); err != nil {
				yield(Entry{}, err)
				return
			}
		}
		err := l.kept().Visit(ctx, prefix, func(e Entry) bool {
			key, own := l.own(e.Key)
			e.Key = key
			return !own || yield(e, nil)
		})
		if err != nil {
			yield(Entry{}, err)
		}
	}
}

// Reset removes the bucket with that key: its level, its held units and its block. The next
// call finds the bucket empty. Resetting a bucket that does not exist does nothing.
//
// If the error is [ErrUnknownOutcome], the bucket may be gone. After any other error it is not.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	key = l.key(key)
	if err := store.ValidateKey(key); err != nil {
		return err
	}
	return l.kept().Delete(ctx, key)
}

// Prune removes the buckets of the whole store, whatever their prefix, that have leaked empty,
// hold nothing and are not blocked. It spares a bucket that became empty less than the store's
// MaxSkew ago. Prune returns the number of buckets that it removed, also if it fails half-way.
// Call it now and then, so that the store does not grow with keys that are no longer used. Prune
// changes no answer: an empty bucket and an absent one are the same.
func (l *Limiter) Prune(ctx context.Context) (int64, error) { return l.kept().Prune(ctx) }

// fill validates an operation and lets the store decide it. Least is the smallest amount that
// the caller passed. The State is written to *st, because each return of a State is a copy.
func (l *Limiter) fill(ctx context.Context, st *State, op *store.Op, least float64) error {
	switch {
	case l.shadow != nil && (op.Mode == store.IfFits || op.Mode == store.Ask || op.Mode == store.UpTo):
		return l.fillShadow(ctx, st, op, least)
	case isSpecial(&op.Limit):
		return l.fillSpecial(ctx, st, op, least)
	case op.Calendar():
		return l.fillPeriod(ctx, st, op, least)
	case op.Mode == store.Always && op.Limit == Limit{}: // the store would take it for the limit last written
		return op.Limit.Validate()
	}
	if err := l.prepare(op, least); err != nil {
		return err
	}
	var err error
	*st, err = l.store.Fill(ctx, *op)
	return err
}

// prepare puts the prefix before the operation's key, sets the penalty and validates the
// operation. An Op with a negative amount takes units out, but a caller of the Limiter must not
// pass a negative amount, so least must not be negative.
//
// The penalty is set here and not in each method, because the compiler inlines the methods only
// while they are this short. That saves a fill in memory a seventh of its time.
func (l *Limiter) prepare(op *store.Op, least float64) error {
	if least < 0 {
		return fmt.Errorf("brim: %w: %v is negative; a positive amount of Drain or Release gives units back",
			ErrInvalidAmount, least)
	}
	op.Key = l.key(op.Key)
	if op.Mode < store.Always || op.Mode == store.UpTo {
		op.BlockFor = l.penalty
	}
	err := op.Validate()
	if err == nil && l.store == nil {
		err = errNoStore
	}
	return err
}

// key returns the name by which the store knows the caller's key. An empty key stays empty,
// so that the validator refuses it even with a prefix. Otherwise all callers who forgot their
// key would share a bucket.
func (l *Limiter) key(key string) string {
	if key == "" {
		return key
	}
	return l.name(key)
}

// mark begins the names of buckets that are not their keys. A digit follows it if the bucket is one
// of a Limiter with a prefix, and a second mark if it is not.
const mark = "@"

// name returns the store's name of a key, or the beginning of the names of keys that begin so.
func (l *Limiter) name(key string) string {
	switch {
	case l.head != "":
		return l.head + key
	case key != "" && key[0] == mark[0] && !l.asStored:
		return mark + key
	}
	return key
}

// own returns the key of a name in a listing. It reports whether the bucket is the Limiter's.
func (l *Limiter) own(name string) (key string, own bool) {
	switch {
	case l.head != "" || l.asStored || name[0] != mark[0]:
		return name[len(l.head):], true
	case strings.HasPrefix(name[1:], mark):
		return name[1:], true
	}
	return "", false
}

// first returns the only state of a read of one bucket.
func first(states []State, err error) (State, error) {
	if err != nil {
		return State{}, err
	}
	return states[0], nil
}

// kept returns the store, also of a zero Limiter.
func (l *Limiter) kept() store.Store {
	if l.store == nil {
		return noStore{}
	}
	return l.store
}

// noStore is the store of a Limiter that was made without one.
type noStore struct{}

var errNoStore = fmt.Errorf("brim: %w: the Limiter has no store; pass one to New", ErrClosed)

func (noStore) Fill(context.Context, store.Op) (State, error) { return State{}, errNoStore }

func (noStore) Apply(context.Context, ...store.Txn) ([]store.Result, error) { return nil, errNoStore }

func (noStore) Read(context.Context, ...Bucket) ([]State, error)      { return nil, errNoStore }
func (noStore) Delete(context.Context, ...string) error               { return errNoStore }
func (noStore) Visit(context.Context, string, func(Entry) bool) error { return errNoStore }
func (noStore) Size(context.Context) (int64, error)                   { return 0, errNoStore }
func (noStore) Prune(context.Context) (int64, error)                  { return 0, errNoStore }
func (noStore) Close() error                                          { return nil }
