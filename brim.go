// Package brim answers one question about a cost: does it still fit?
//
// A bucket holds Capacity units and leaks LeakRate of them per second. [Limiter.TryFillup] puts a cost in if it fits wholly,
// in one atomic step, wherever the bucket is kept: in PostgreSQL, in a bbolt file or in memory. Most programs need only that
// method. [Limiter.Fillup] registers what has happened anyway, and [Limiter.AbleToAccept] only asks. [Shaper] makes callers
// wait for their turn instead of refusing them.
//
//	db, err := bolt.Open("limits.db", nil)
//	...
//	lim := brim.New(db, nil)
//	inserts := brim.Limit{Capacity: 10_000, LeakRate: 500} // rows; rows per second
//	st, err := lim.TryFillup(ctx, inserts.For("tenant:42"), float64(len(rows)))
//
// An error means that the store failed or that the call made no sense; the limit has then said nothing. A refusal is not an
// error: see [State].
//
// # Units
//
// Amounts are float64. Integers up to 2^53 are exact, so count in the smallest unit: cents, rows, bytes. Times are whole
// microseconds, on the store's clock: the server's for PostgreSQL.
//
// # What a bucket does not promise
//
// A full bucket that then leaks lets about twice its capacity through in the time it takes to drain. For "never more than c
// in any window", see package spend.
//
// The model is the leaky bucket as a meter; see Turner, "New directions in communications", 1986.
package brim

import (
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim/store"
)

// Limiter asks and fills buckets in one store. It holds no state of its own: any number of goroutines may share one, and
// any number of Limiters one store. Over a nil store it answers
// [ErrClosed].
type Limiter struct {
	store   store.Store
	prefix  string
	penalty time.Duration // of what does not fit; see WithPenalty
}

// Options adjust a [Limiter]. The zero value is the default.
type Options struct {
	// Prefix is put before every key, so that several programs can share a store. It counts towards a key's 512 bytes.
	Prefix string
}

// New returns a Limiter over s. It cannot fail; o may be nil.
func New(s store.Store, o *Options) *Limiter {
	l := &Limiter{store: s}
	if o != nil {
		l.prefix = o.Prefix
	}
	return l
}

// TryFillup puts n units into b if they fit wholly, and changes nothing if they do not.
//
// The decision is atomic and uses the store's clock: however many processes share b, what they are granted in any interval
// never exceeds what b holds and leaks. A refusal is not an error: Accepted is false, and RetryAfter says how long until n
// would fit if nobody else came, or [Never]. Exactly full is accepted; n = 0 always is, and writes nothing.
//
// If the error is [ErrUnknownOutcome], n may have gone in. Any other error means that it did not.
func (l *Limiter) TryFillup(ctx context.Context, b Bucket, n float64) (State, error) {
	return l.fill(ctx, &store.Op{Bucket: b, Amount: n, Mode: store.IfFits}, n)
}

// Fillup puts n units into b up to its rim; what exceeds the rim is lost and reported as Spilled. It is for what has
// happened anyway. Full reports that this call brought b to its capacity: true for an instant only, since b leaks.
//
// If the error is [ErrUnknownOutcome], n may have gone in. Any other error means that it did not.
func (l *Limiter) Fillup(ctx context.Context, b Bucket, n float64) (State, error) {
	return l.fill(ctx, &store.Op{Bucket: b, Amount: n, Mode: store.Clamp}, n)
}

// AbleToAccept asks whether n units would fit into b now: State.Accepted is the answer, and RetryAfter says when n would fit.
// It writes nothing and reserves nothing: another caller may fill b before the answer arrives. To decide and fill in one
// step, use [Limiter.TryFillup].
func (l *Limiter) AbleToAccept(ctx context.Context, b Bucket, n float64) (State, error) {
	if err := b.Limit.Validate(); err != nil {
		return State{}, err
	}
	if err := b.ValidateAmount(n); err != nil {
		return State{}, err
	}
	st, err := l.read(ctx, b)
	if err != nil {
		return State{}, err
	}
	found := store.Record{Level: st.Level, Held: st.Held, Time: st.At.UnixMicro(), Limit: b.Limit}
	if !st.BlockedUntil.IsZero() {
		found.BlockedUntil = st.BlockedUntil.UnixMicro()
	}
	would, _, err := found.Fill(&store.Op{Bucket: b, Amount: n, Mode: store.IfFits}, found.Time, store.DefaultMaxSkew)
	st.Accepted, st.RetryAfter = would.Accepted, would.RetryAfter
	return st, err
}

// State reports what b holds now. It writes nothing; Accepted and Full are false. A bucket that was never filled is empty.
func (l *Limiter) State(ctx context.Context, b Bucket) (State, error) { return l.read(ctx, b) }

// StateOf reports what the bucket of that key holds now by the limit last written with it, for tools that do not know the
// limit. A Capacity of 0 says that there is no such bucket. It writes nothing.
func (l *Limiter) StateOf(ctx context.Context, key string) (State, error) {
	key = l.full(key)
	if err := store.ValidateKey(key); err != nil {
		return State{}, err
	}
	return first(l.backend().Read(ctx, Bucket{Key: key}))
}

// Drain takes n units out of b, at most what is in it: units given back, or counted in error. Draining an empty bucket
// changes nothing.
//
// If the error is [ErrUnknownOutcome], n may have been taken out. Any other error means that it was not.
func (l *Limiter) Drain(ctx context.Context, b Bucket, n float64) (State, error) {
	return l.fill(ctx, &store.Op{Bucket: b, Amount: -n, Mode: store.Always}, n)
}

// Hold reserves room for n units in b if they fit wholly, and changes nothing if they do not. Held units do not leak: they
// take up room until [Limiter.Capture] or [Limiter.Release] ends the hold. Who holds what is the caller's to remember;
// package spend keeps that record and lets holds expire.
//
// If the error is [ErrUnknownOutcome], n may be held. Any other error means that it is not.
func (l *Limiter) Hold(ctx context.Context, b Bucket, n float64) (State, error) {
	return l.fill(ctx, &store.Op{Bucket: b, Hold: n, Mode: store.IfFits}, n)
}

// Capture ends a hold of held units: used of them go in, even past the rim, and begin to leak; the rest is free again. More
// than b holds is [ErrNotHeld] and changes nothing.
//
// If the error is [ErrUnknownOutcome], the hold may have ended. Any other error means that it has not.
func (l *Limiter) Capture(ctx context.Context, b Bucket, held, used float64) (State, error) {
	return l.fill(ctx, &store.Op{Bucket: b, Amount: used, Hold: -held, Mode: store.Always}, min(held, used))
}

// Release ends a hold of n units and frees their room. More than b holds is [ErrNotHeld] and changes nothing.
//
// If the error is [ErrUnknownOutcome], the hold may have ended. Any other error means that it has not.
func (l *Limiter) Release(ctx context.Context, b Bucket, n float64) (State, error) {
	return l.fill(ctx, &store.Op{Bucket: b, Hold: -n, Mode: store.Always}, n)
}

// fill validates what was asked for, of which least is the smallest amount as the caller gave it, and has it decided.
func (l *Limiter) fill(ctx context.Context, op *store.Op, least float64) (State, error) {
	if least < 0 {
		return State{}, fmt.Errorf("brim: %w: %v is negative; to give units back, use Drain or Release", ErrInvalidAmount, least)
	}
	op.Key = l.full(op.Key)
	if op.Mode != store.Always {
		op.BlockFor = l.penalty
	}
	if err := op.Validate(); err != nil {
		return State{}, err
	}
	return l.backend().Fill(ctx, *op)
}

// read asks for the state of one bucket.
func (l *Limiter) read(ctx context.Context, b Bucket) (State, error) {
	b.Key = l.full(b.Key)
	if err := b.Validate(); err != nil {
		return State{}, err
	}
	return first(l.backend().Read(ctx, b))
}

func first(states []State, err error) (State, error) {
	if err != nil {
		return State{}, err
	}
	return states[0], nil
}

// full is the key as the store knows it. An empty key stays empty, so that the validator refuses it under a prefix too: all
// callers who forgot theirs would share one bucket.
func (l *Limiter) full(key string) string {
	if l.prefix == "" || key == "" {
		return key
	}
	return l.prefix + key
}

// backend is the store, or one that answers ErrClosed.
func (l *Limiter) backend() store.Store {
	if l.store == nil {
		return none{}
	}
	return l.store
}
