// Package cached shares one costly reading, such as a listing of all buckets, among everybody who
// looks, and bounds its cost: after a reading, it rests for 20 times as long as the reading took.
// So readings take at most a twenty-first of the time.
package cached

import (
	"context"
	"sync"
	"time"
)

// Pause is the time between two readings, in times of the last one.
const Pause = 20

// Reading is a reading that has ended.
type Reading[T any] struct {
	Value T
	At    time.Time     // when it began
	Took  time.Duration // until it ended
	Err   error
}

// Value is a reading that is repeated while somebody looks. It is safe for concurrent use.
type Value[T any] struct {
	read  func(context.Context) (T, error)
	clock func() time.Time
	rest  func(Reading[T]) time.Duration

	mu      sync.Mutex
	latest  Reading[T]
	doubted bool          // the next reading is due early
	running chan struct{} // closed when the reading that runs has ended; nil if none runs
	ctx     context.Context
	stop    context.CancelFunc
}

// New returns a Value that calls read, and measures by clock. After a reading, rest returns the
// time from its beginning until the next one may begin; nil means that which the package comment
// tells. No two calls of read overlap.
func New[T any](read func(context.Context) (T, error), rest func(Reading[T]) time.Duration, clock func() time.Time) *Value[T] {
	if rest == nil {
		rest = func(r Reading[T]) time.Duration { return (Pause + 1) * r.Took }
	}
	v := &Value[T]{read: read, rest: rest, clock: clock}
	v.ctx, v.stop = context.WithCancel(context.Background())
	return v
}

// Latest returns the last reading at once, and begins the next one if it is time for it. It waits
// for the first reading, until ctx ends. A failed reading is one like any other: its Err is set.
func (v *Value[T]) Latest(ctx context.Context) (Reading[T], error) {
	latest, running := v.look()
	if !latest.At.IsZero() {
		return latest, nil
	}
	return v.await(ctx, running)
}

// Next is Latest, and waits for the reading that runs, until ctx ends. With the error of ctx it
// returns the reading before.
func (v *Value[T]) Next(ctx context.Context) (Reading[T], error) {
	latest, running := v.look()
	if running == nil && !latest.At.IsZero() {
		return latest, nil
	}
	return v.await(ctx, running)
}

// Doubt makes the next reading due a second after the last one began, or five times as long as that
// took.
func (v *Value[T]) Doubt() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.doubted = true
}

// look begins a reading if it is time for it. It returns the last reading, and the channel of the
// reading that runs.
func (v *Value[T]) look() (latest Reading[T], running chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.running == nil && v.ctx.Err() == nil && (v.latest.At.IsZero() || v.due()) {
		v.running, v.doubted = make(chan struct{}), false
		go v.next()
	}
	return v.latest, v.running
}

// await waits for the reading that runs, and returns the last one.
func (v *Value[T]) await(ctx context.Context, running chan struct{}) (latest Reading[T], err error) {
	if running == nil {
		err = v.ctx.Err() // closed before the first look
	} else {
		select {
		case <-running:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.latest, err
}

// due reports whether the next reading may begin. A clock that was set back does not delay it.
func (v *Value[T]) due() bool {
	age := v.clock().Sub(v.latest.At)
	rest := v.rest(v.latest)
	if v.doubted {
		rest = min(rest, max(time.Second, 5*v.latest.Took))
	}
	return age < 0 || age >= rest
}

// next reads, and ends what waits for it.
func (v *Value[T]) next() {
	at := v.clock()
	value, err := v.read(v.ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.latest = Reading[T]{Value: value, At: at, Took: max(0, v.clock().Sub(at)), Err: err}
	close(v.running)
	v.running = nil
}

// Close ends a reading that runs, and waits for its end. Latest then returns the last reading.
func (v *Value[T]) Close() {
	v.mu.Lock()
	v.stop()
	running := v.running
	v.mu.Unlock()
	if running != nil {
		<-running
	}
}
