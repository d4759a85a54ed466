package store

import (
	"context"
	"time"
)

// Store keeps buckets. Its usual caller is the Limiter of package brim. A wrapper around a
// Store is a Store too.
//
// All methods may be called by any number of goroutines at once. The caller has validated the
// arguments by [Op.Validate], [Txn.Validate], [Bucket.Validate] or [ValidateKey], so a store
// need not validate them again. It must answer [errors.ErrUnsupported] to a [Mode] or a field
// that it does not know, and must never ignore one.
//
// If the context is already done, every method returns the context's error and does nothing. After
// Close every method returns [ErrClosed]. After an error other than [ErrUnknownOutcome] nothing was
// applied. A refusal is a [State], never an error. A store never gets [Nobody] or [Unlimited]. It
// gets a quota of the calendar in the form of [Op.SetPeriod]: a negative leak rate is the time at
// which a bucket empties, and nothing leaks before.
type Store interface {
	// Fill decides one operation on one bucket atomically. It is the hot path.
	Fill(ctx context.Context, op Op) (State, error)

	// Apply decides transactions in order, and returns one Result per transaction. Each
	// transaction is decided by itself: all of its operations go in or none; see [Decide]. A
	// backend that commits makes one commit for all transactions of the call.
	Apply(ctx context.Context, txns ...Txn) ([]Result, error)

	// Read returns the state of each bucket, in the order of the arguments, by the capacity of the
	// argument and the rate at which the bucket leaks; see [State]. A zero Limit stands for the
	// limit last written to the bucket. A bucket that does not exist is empty, and without a limit
	// its Capacity is 0. Read writes nothing.
	Read(ctx context.Context, buckets ...Bucket) ([]State, error)

	// Delete removes buckets, whatever their state. It ignores keys that do not exist.
	Delete(ctx context.Context, keys ...string) error

	// Visit calls f for each bucket whose key starts with prefix, with its state by the limit
	// last written, until f returns false. It passes over the store once, in any order.
	//
	// A bucket that exists from the beginning of Visit to its end is visited exactly once. A
	// bucket that is created or removed meanwhile may be visited or not.
	//
	// Visit holds no lock and no snapshot of the store for more than a few milliseconds, and none
	// while f runs. So f may take its time, and it may call the store. f runs on the goroutine of
	// the caller. If ctx ends, Visit returns the context's error; after f has returned false, it
	// returns nil. If single buckets are damaged, Visit visits all others first, and then returns
	// [ErrCorrupt].
	Visit(ctx context.Context, prefix string, f func(Entry) bool) error

	// Size returns the bytes that the buckets take where the store keeps them: of its file and
	// log, of its table with indexes, or of memory. Space that is free for later buckets counts
	// too. Size reads no bucket, so it is cheap however many there are. A store that cannot tell
	// returns [errors.ErrUnsupported].
	Size(ctx context.Context) (int64, error)

	// Prune removes the buckets that have expired by [Record.Expired], and returns their
	// number. It changes no answer.
	Prune(ctx context.Context) (int64, error)

	// Close closes the store. Calls in flight complete first, or fail with ErrClosed. A second
	// Close does nothing and returns nil.
	Close() error
}

// Mode tells a store how to treat an amount that does not fit.
type Mode uint8

const (
	// IfFits puts the amount in wholly or not at all: TryFillup and Hold. With a negative amount
	// and a ceiling it takes units out only if the bucket is then no fuller than the ceiling.
	IfFits Mode = iota
	// Clamp puts the amount in up to the capacity and drops the excess: Fillup.
	Clamp
	// Always puts the amount in even above the capacity, and takes it out down to zero: Drain,
	// Capture, Release.
	Always
	// Ask puts nothing in: AbleToAccept. Accepted is that of the same operation in mode IfFits at
	// the same moment; the rest of the State is that of a read, and RetryAfter is by its rate. A
	// store writes nothing, makes no bucket, and takes no lock that another process can hold for
	// long. An Ask carries no penalty. In a transaction it may stand beside operations of mode
	// IfFits; see [Decide].
	Ask
	// Block blocks the bucket for BlockFor, or [UntilEmpty], and leaves level, held units and time
	// as they are. It has only a key and a BlockFor, and a Limit if the State should be by that
	// limit. It is always accepted. It may prolong an earlier block and never shortens it. It
	// creates the bucket if need be, by that Limit or none.
	Block
	// Unblock ends the block of the bucket and changes nothing else. It has only a key, and a
	// Limit if the State should be by that limit; a zero Limit stands for the limit last written.
	// It is always accepted. It writes nothing if the bucket has no block or does not exist.
	Unblock
	// UpTo puts in the largest whole number of units from Least to Amount that fits, or none if
	// Least does not fit: TakeUpTo. State.Taken is the number. Least and Amount are whole numbers.
	// The operation has no hold and no ceiling, and no other operation of a transaction has its
	// key.
	UpTo
)

// UntilEmpty as the BlockFor of an [Op] blocks the bucket until its level has leaked.
const UntilEmpty time.Duration = -1

// Op is one operation on one bucket.
type Op struct {
	// Bucket is the bucket with the limit to decide by. The limit is stored if the operation
	// puts units in or takes them out, or creates the bucket. In modes Always, Block and Unblock a
	// zero Limit stands for the limit last written.
	Bucket
	// Amount is the number of units to put in. In modes IfFits, Ask and Always it may be
	// negative: it then takes units out, down to a level of zero.
	Amount float64
	// Least is the smallest number of units that an operation of mode UpTo puts in, from 1 on. It
	// is 0 in the other modes.
	Least float64
	// Hold is the change of the held units, which take up room and do not leak. In mode Always
	// it may be negative. Taking back more units than are held is [ErrNotHeld].
	Hold float64
	// Mode tells how to treat an amount that does not fit.
	Mode Mode
	// Turn reports that the caller computes from the State of an accepted call when the units
	// have their turn, as a Shaper does. Turn changes no decision of a backend. A wrapper whose
	// State would give a wrong turn passes the operation on, or answers [errors.ErrUnsupported].
	Turn bool
	// Ceiling, if not 0, takes the place of the capacity in the decision of this call: the units
	// that the bucket may contain after it. It may be above the capacity. It is not stored, and the
	// State is by the capacity. A caller that waits for its turn bounds the wait by it.
	Ceiling float64
	// CeilingAt, if not zero, makes Ceiling sink at the leak rate from this time on, on the
	// store's clock. A caller that takes units back sets Ceiling and CeilingAt from the State
	// of its earlier call: the operation then succeeds only if nobody has put units in since.
	CeilingAt time.Time
	// Begins is the beginning of the period that ends at -LeakRate, in microseconds since the Unix
	// epoch, if LeakRate is negative; see [Op.SetPeriod]. It is 0 under other limits. If the
	// bucket's time, which is the store's clock or the last write if the clock is behind it, is not
	// in the period, the store answers [*PeriodError].
	Begins int64
	// BlockFor is the penalty. If it is not 0, the amount does not fit, and no block lasts, the
	// bucket is blocked for BlockFor, or [UntilEmpty]. In mode Block it is the duration of the
	// block. From [Never] on, a block lasts for ever.
	BlockFor time.Duration
}

// Txn is a transaction: operations that go in together or not at all. A key may occur more than
// once, with one limit; a later operation then finds the bucket as an earlier one left it.
// Operations of mode [Ask] must fit as well, together with the others, but do not go in.
type Txn []Op

// Result is the outcome of a transaction.
type Result struct {
	// Accepted reports whether the transaction went in: no operation of it was refused.
	Accepted bool
	// States has one element per operation. After a refusal no state is Accepted, each reports
	// the bucket as the refusal left it, and only the operations that were refused have a
	// RetryAfter. States of mode Ask report the bucket as it is.
	States []State
	// Err is the reason why this transaction could not be decided, for instance [ErrNotHeld] or
	// [ErrCorrupt]. The transaction then changed nothing.
	Err error
}

// Witness is a capability that a wrapper may have beside the methods of [Store]. The Limiter calls
// Answered for each answer that it gives without the store, because the limit is [Nobody] or
// [Unlimited].
type Witness interface {
	// Answered gets an operation, with that limit, and its answer. It returns the answer that the
	// caller gets. A wrapper passes the call on to the store that it wraps by the function
	// [Answered].
	Answered(ctx context.Context, op Op, st State) State
}

// Answered calls s if s is a [Witness], or else returns st.
func Answered(ctx context.Context, s Store, op Op, st State) State {
	if w, ok := s.(Witness); ok {
		return w.Answered(ctx, op, st)
	}
	return st
}

// Entry is a bucket in a listing, with its state by the limit last written.
type Entry struct {
	Key string
	State
}
