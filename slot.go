package brim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/brimgo/brim/internal/sleep"
	"github.com/brimgo/brim/store"
)

// Bounds of the arguments of [Limiter.Acquire]. At a TTL of a year, a double still separates
// microseconds.
const (
	maxSlots = 10_000
	minTTL   = time.Millisecond
	maxTTL   = 365 * 24 * time.Hour
	// maxLooks is the number of places that Acquire looks at beside its first.
	maxLooks = 64
)

// ErrSlotLost reports a [Slot] that is not the caller's any more: its TTL has passed without a
// Renew, or the caller has released it. Another caller may have its place.
var ErrSlotLost = errors.New("brim: the slot is lost: its TTL has passed, or it was released")

// Slot is one of the places of a key that [Limiter.Acquire] gives away. Its holder keeps it until
// the holder releases it, or until its TTL has passed since the last Renew. Any number of
// goroutines may use a Slot at once.
type Slot struct {
	store  store.Store
	bucket Bucket // of the place
	ttl    time.Duration

	mu    sync.Mutex
	lost  bool
	at    time.Time // of the last grant, on the store's clock
	until time.Time // when the TTL passes, on the clock of this process
}

// Acquire takes a slot of a key for a TTL on the store's clock, if fewer than most are taken. Use
// slots to bound the work in progress: exports at the same time, or calls to a peer. A process that
// is killed, or that loses the store, loses its slots when their TTL passes: nobody has to clean
// up. [Limiter.Hold] reserves room as well, but a hold has neither an owner nor an end.
//
// Most holders need [Slot.Keep] alone. Others call [Slot.Renew] before the TTL has passed, and
// [Slot.Release] in the end. While a holder is stalled for longer than the TTL, somebody else can
// get its place. Then Renew, Release and the context of Keep tell it. Until then it works beside
// the new holder, so give a TTL that is several times as long as a pause of the process.
//
// If every place that it looked at was taken, the error is an [*OverLimitError]. Its RetryAfter is
// the time until the first of them is free if nobody renews or releases. At most so many slots are
// taken at any moment of the store's clock, however many processes share the key. A clock that
// steps forward ends slots early. All callers pass the same TTL for a key. If most grows, the new
// places are there at once; if it shrinks, the holders of the others may stay.
//
// A place is a bucket that drains in the TTL, apart from the buckets of all keys. The first look is
// at a random place. If that is taken, the second is at 64 others, or at all others if there are
// fewer. So a refusal costs two calls of the store, and one more for each place that somebody else
// takes between the two. Up to 65 places, a refusal means that all were taken. Above that, 65
// random places were: if a share f of all is taken, Acquire refuses a share f^65 of the calls
// although there is room. That is 4 % at f = 0.95, 0.1 % at 0.9 and 1 in 2 million at 0.8.
//
// Most is from 1 to 10,000, and the TTL from a millisecond to a year; else the error is
// [ErrInvalidLimit]. With Options.Shadow the error is [errors.ErrUnsupported]. If it is
// [ErrUnknownOutcome], a place may be taken for the TTL.
func (l *Limiter) Acquire(ctx context.Context, key string, most int, ttl time.Duration) (*Slot, error) {
	switch {
	case most < 1 || most > maxSlots:
		return nil, fmt.Errorf("brim: %w: at most %d slots; it must be from 1 to %d", ErrInvalidLimit, most, maxSlots)
	case ttl < minTTL || ttl > maxTTL:
		return nil, fmt.Errorf("brim: %w: the TTL is %v; it must be from %v to %v", ErrInvalidLimit, ttl, minTTL, maxTTL)
	case l.shadow != nil:
		return nil, errors.ErrUnsupported
	}
	ttl = ttl.Truncate(time.Microsecond)
	name := l.key(key)
	place := func(i int) Bucket { // no key has such a name; see mark
		return Bucket{Key: mark + "slot" + strconv.Itoa(i) + ":" + name, Limit: whole(ttl)}
	}
	if err := cmp.Or(store.ValidateKey(key), place(most-1).Validate()); err != nil {
		return nil, err
	}
	first := rand.IntN(most)
	s := &Slot{store: l.kept(), bucket: place(first), ttl: ttl}
	st, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	if st.Accepted {
		return s, nil
	}
	least := st.RetryAfter
	others := make([]Bucket, 0, maxLooks)
	for _, i := range looks(most, first) {
		others = append(others, place(i))
	}
	var states []State
	if len(others) > 0 {
		if states, err = s.store.Read(ctx, others...); err != nil {
			return nil, err
		}
	}
	for i, other := range states {
		if other.Level > 0 {
			least = min(least, other.TimeToEmpty())
			continue
		}
		s.bucket = others[i]
		if st, err = s.take(ctx); err != nil {
			return nil, err
		}
		if st.Accepted {
			return s, nil
		}
		least = min(least, st.RetryAfter) // somebody else was faster
	}
	st.Level, st.Capacity, st.LeakRate, st.RetryAfter = float64(most), float64(most), 0, least
	return nil, &OverLimitError{st}
}

// looks returns maxLooks places other than first, or all others if there are fewer, at random.
func looks(most, first int) []int {
	others := most - 1
	chosen := make([]int, 0, maxLooks)
	for j := max(0, others-maxLooks); j < others; j++ { // Floyd's choice of a random subset
		i := rand.IntN(j + 1)
		if slices.Contains(chosen, i) {
			i = j
		}
		chosen = append(chosen, i)
	}
	rand.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	for i := range chosen {
		if chosen[i] >= first {
			chosen[i]++
		}
	}
	return chosen
}

// whole returns the limit of a place. A slot fills it, in seconds, and the last of it leaks when
// the TTL has passed: not a microsecond earlier or later.
func whole(ttl time.Duration) Limit {
	return Limit{Capacity: float64(ttl.Microseconds()) / 1e6, LeakRate: 1}
}

// take fills the place if it is free.
func (s *Slot) take(ctx context.Context) (State, error) {
	sent := time.Now()
	st, err := s.store.Fill(ctx, s.fill())
	s.granted(st.At, sent)
	return st, err
}

// fill is the operation that takes the place if it is free.
func (s *Slot) fill() store.Op {
	return store.Op{Bucket: s.bucket, Amount: s.bucket.Capacity, Mode: store.IfFits, Turn: true}
}

// leave is the operation that frees the place if nobody else has it. The slot was granted at a time
// and ends a TTL later. If it was renewed, and the answer did not come, it ends less than two TTLs
// after that time; the slot of anybody else ends two TTLs after it, or later. The ceiling sinks
// from then on and lies half a microsecond between both.
func (s *Slot) leave() store.Op {
	op := s.fill()
	op.Amount = -op.Amount
	op.Ceiling, op.CeilingAt = s.bucket.Capacity-0.5e-6, s.at
	return op
}

// granted notes the time of a grant on the store's clock. The call was sent at a time on the clock
// of this process, which the grant does not precede.
func (s *Slot) granted(at, sent time.Time) { s.at, s.until = at, sent.Add(s.ttl) }

// expired reports whether the TTL had passed at a time on the store's clock.
func (s *Slot) expired(at time.Time) bool {
	return !at.Before(s.at.Add(s.ttl))
}

// over reports whether the slot is lost, also by the clock of this process. The store's clock does
// not tell after a step back by more than MaxSkew: the ceiling of leave does not sink then.
func (s *Slot) over() bool {
	s.lost = s.lost || !time.Now().Before(s.until)
	return s.lost
}

// Renew has the TTL begin anew. If the slot is lost, the error is [ErrSlotLost]. After any other
// error the slot ends as it would have done, or later if the error is [ErrUnknownOutcome]; try
// again.
func (s *Slot) Renew(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over() {
		return ErrSlotLost
	}
	sent := time.Now()
	results, err := s.store.Apply(ctx, store.Txn{s.leave(), s.fill()})
	if err == nil {
		err = results[0].Err
	}
	switch {
	case err != nil:
		return err
	case !results[0].Accepted:
		s.lost = true
		return ErrSlotLost
	}
	at := results[0].States[1].At
	late := s.expired(at)
	s.granted(at, sent)
	if late { // the place was free for some time, and others may have had it
		s.lost = true
		_, err := s.store.Fill(ctx, s.leave())
		return errors.Join(ErrSlotLost, err)
	}
	return nil
}

// Release frees the place for others. It does so also if ctx has ended; the store's own timeouts
// bound it. If the slot was lost before, the error is [ErrSlotLost]. After any other error the
// place is free when its TTL has passed. The slot is lost in any case, so Release does nothing a
// second time.
func (s *Slot) Release(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over() {
		return ErrSlotLost
	}
	s.lost = true // a second attempt could free the place of the next holder
	st, err := s.store.Fill(context.WithoutCancel(ctx), s.leave())
	if err == nil && (!st.Accepted || s.expired(st.At)) {
		err = ErrSlotLost
	}
	return err
}

// Keep renews the slot after every third of its TTL until ctx ends or the caller calls release,
// which also releases it; if the store fails meanwhile, the place is free when the TTL has passed.
// The context that Keep returns ends with ctx, with release, and when the slot is lost;
// [context.Cause] is then [ErrSlotLost]. The slot is lost, too, if the store has not answered until
// the TTL has passed by the clock of this process.
func (s *Slot) Keep(ctx context.Context) (_ context.Context, release func()) {
	kept, cancel := context.WithCancelCause(ctx)
	go func() {
		for sleep.For(kept, s.ttl/3) == nil {
			if !s.renewed(kept) {
				cancel(ErrSlotLost)
			}
		}
	}()
	return kept, func() {
		cancel(nil)
		_ = s.Release(ctx)
	}
}

// renewed renews the slot, and tries again until the TTL has passed. It reports whether the slot is
// still the caller's. A Renew that was sent gets its answer although ctx has ended: Release waits
// for it, so that it does not take the place again.
func (s *Slot) renewed(ctx context.Context) bool {
	s.mu.Lock()
	until := s.until
	s.mu.Unlock()
	sent, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	for {
		err := s.Renew(sent)
		switch {
		case err == nil:
			return true
		case errors.Is(err, ErrSlotLost) || sent.Err() != nil:
			return false
		case sleep.For(ctx, min(s.ttl/20, time.Until(until))) != nil:
			return true // the caller has stopped
		}
	}
}
