package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// Defaults of [FallbackOptions], and of the handlers that fail open in packages httplimit and
// grpclimit.
const (
	DefaultShare    = 1.0
	DefaultPatience = 100 * time.Millisecond
	DefaultRetry    = time.Second
)

// FallbackOptions adjust [Fallback]. The zero value selects the defaults.
type FallbackOptions struct {
	// Share is the share of each limit that the standby store admits, above 0 and up to 1; 0 means
	// [DefaultShare]. If N processes share the buckets, 1/N keeps all of them together to the
	// limit.
	Share float64
	// Patience is the time after which a call to the store is overdue, and cut short; 0 means
	// [DefaultPatience].
	Patience time.Duration
	// Retry is the time from one attempt to reach the store again to the next, for a key that is
	// overdue and for all keys; 0 means [DefaultRetry].
	Retry time.Duration
	// Switched is told of the beginning of each outage, with the error of the question that failed,
	// and of its end, with nil. It must not block. nil means that nobody is told.
	Switched func(err error)
}

// Fallback returns a store over s that lets standby, usually a store in memory, decide while s is
// out of reach; o may be nil. If a store is nil, the error is [store.ErrClosed]. It also fails if
// an option is out of range. Close closes both stores.
//
// Fallback serves the calls of TryFillup, TryFillupAll, Fillup and AbleToAccept. If such a call to
// s is [store.ErrUnavailable] or [store.ErrUnknownOutcome], or takes longer than Patience, the
// standby store answers it, by Share of each limit, and the State has Estimate set. Units whose
// outcome is unknown may then count in both stores. All other errors that come within Patience
// reach the caller, among them [store.ErrMisconfigured] and [store.ErrCorrupt], and so do the
// errors of all other calls. A turn is one of these: during an outage Limiter.Wait fills the
// standby store if n fits there, and otherwise fails.
//
// Only Patience judges s, from the start of a call, and never the caller. If the deadline of a
// caller is nearer, the call to s goes on without the caller, on a goroutine of its own; there are
// at most 1,024 of them, and beyond that the standby store decides at once. At the deadline the
// caller gets the answer of the standby store. A caller that cancels its context gets its error.
//
// A failed or overdue call sends only its own key to the standby store, for Retry; then one call
// tries s again. An outage of all keys begins when s also fails to answer a question about a key
// that no client can name, within half of Patience. Fallback asks it, one at a time, as soon as a
// call fails, or has lasted for half of Patience. So no client can choose an outage for others, and
// after Patience the standby store answers all calls at once. During an outage, Fallback asks the
// question once in Retry, and the first answer ends the outage.
//
// In any time T, N processes admit at most N * Share * (c + r * T) units for a bucket of capacity c
// and rate r, in addition to the bound of s. A limit that never leaks is granted anew by each
// process and each restart.
func Fallback(s, standby store.Store, o *FallbackOptions) (store.Store, error) {
	if o == nil {
		o = &FallbackOptions{}
	}
	f := &fallback{
		standby: standby, share: cmp.Or(o.Share, DefaultShare), switched: o.Switched,
		patience: cmp.Or(o.Patience, DefaultPatience), retry: cmp.Or(o.Retry, DefaultRetry),
	}
	var err error
	switch {
	case !(f.share > 0 && f.share <= 1):
		err = fmt.Errorf("Share is %v; it must be above 0 and at most 1, or 0 for %v", o.Share, DefaultShare)
	case f.patience < 0:
		err = fmt.Errorf("Patience is %v; it must be positive, or 0 for %v", o.Patience, DefaultPatience)
	case f.retry < 0:
		err = fmt.Errorf("Retry is %v; it must be positive, or 0 for %v", o.Retry, DefaultRetry)
	}
	if standby == nil {
		err = fmt.Errorf("%w: the standby store is nil", store.ErrClosed)
	}
	if err := f.open("fallback", s, 0, nil, err); err != nil {
		return nil, err
	}
	if f.switched == nil {
		f.switched = func(error) {}
	}
	f.late.until = make(map[string]time.Duration)
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f, nil
}

// fallback is the store of [Fallback].
type fallback struct {
	wrapper
	standby         store.Store
	share           float64
	patience, retry time.Duration
	switched        func(error)

	down  atomic.Bool  // there is an outage
	late  lateKeys     // keys whose last call failed or was overdue
	asked atomic.Int64 // time of the last question, after wrapper.start; 0 before the first

	ctx      context.Context // of questions
	stop     context.CancelFunc
	starting sync.Mutex // held to start a goroutine, and to close
	running  sync.WaitGroup
	detached atomic.Int32 // calls that go on without their callers
}

const (
	// maxDetached is the largest number of calls that go on without their callers.
	maxDetached = 1024
	// maxLate is the largest number of keys that are known to be late. A call of any other waits
	// for Patience.
	maxLate = 1024
)

// Fill lets the standby store decide op if the wrapped store is out of reach.
func (f *fallback) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if err := f.check(ctx, "fill"); err != nil {
		return store.State{}, err
	}
	if !servable(&op) {
		return f.Store.Fill(ctx, op)
	}
	return decide(ctx, f, op.Key, op.Mode == store.Ask,
		func(ctx context.Context) (store.State, error) { return f.Store.Fill(ctx, op) },
		func(ctx context.Context) (store.State, error) {
			st, err := f.standby.Fill(ctx, f.scaled(op))
			f.mark(&st, &op)
			return st, err
		})
}

// Apply lets the standby store decide txns if the wrapped store is out of reach. Their keys are
// late together: a client whose own key is slow must not send the key of all clients to the standby
// store.
func (f *fallback) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if err := f.check(ctx, "apply"); err != nil {
		return nil, err
	}
	var keys strings.Builder
	asks := true
	own := make([]store.Txn, len(txns)) // the call may go on when the caller uses its slices again
	for i, txn := range txns {
		own[i] = append(own[i], txn...)
		asks = asks && txn.Asks()
		for j := range txn {
			if !servable(&txn[j]) {
				return f.Store.Apply(ctx, txns...)
			}
			keys.WriteString(txn[j].Key)
			keys.WriteByte(0) // no key contains it
		}
	}
	return decide(ctx, f, keys.String(), asks,
		func(ctx context.Context) ([]store.Result, error) { return f.tryAll(ctx, own) },
		func(ctx context.Context) ([]store.Result, error) { return f.applyStandby(ctx, own) })
}

// tryAll applies txns. If one of them failed because the store is out of reach, all count as
// failed.
func (f *fallback) tryAll(ctx context.Context, txns []store.Txn) ([]store.Result, error) {
	results, err := f.Store.Apply(ctx, txns...)
	for i := range results {
		if outOfReach(results[i].Err) {
			return nil, results[i].Err
		}
	}
	return results, err
}

func (f *fallback) applyStandby(ctx context.Context, txns []store.Txn) ([]store.Result, error) {
	scaled := make([]store.Txn, len(txns))
	for i, txn := range txns {
		scaled[i] = make(store.Txn, len(txn))
		for j := range txn {
			scaled[i][j] = f.scaled(txn[j])
		}
	}
	results, err := f.standby.Apply(ctx, scaled...)
	for i := range results {
		for j := range results[i].States {
			f.mark(&results[i].States[j], &txns[i][j])
		}
	}
	return results, err
}

// servable reports whether the standby store may decide op: a TryFillup, a Fillup or an
// AbleToAccept. A hold would be unknown to the store afterwards, and turns of a queue have an order
// there.
func servable(op *store.Op) bool {
	return (op.Mode == store.IfFits || op.Mode == store.Clamp || op.Mode == store.Ask) &&
		op.Amount >= 0 && op.Hold == 0 && !op.Turn && op.CeilingAt.IsZero() && op.Limit != (store.Limit{})
}

// scaled returns op with the share of its limit.
func (f *fallback) scaled(op store.Op) store.Op {
	op.Capacity *= f.share
	if op.LeakRate > 0 {
		op.LeakRate = max(store.MinLeakRate, op.LeakRate*f.share)
	}
	op.Ceiling *= f.share
	return op
}

// mark says in an answer of the standby store that it is one. An amount above the share may fit
// when the outage is over.
func (f *fallback) mark(st *store.State, op *store.Op) {
	st.Estimate = true
	if st.RetryAfter >= store.Never && op.Amount <= op.Capacity {
		st.RetryAfter = f.retry
	}
}

// decide returns the answer of try, which calls the wrapped store, or that of standby if the store
// is out of reach for the key. With asks, try changes nothing.
func decide[T any](
	ctx context.Context, f *fallback, key string, asks bool, try, standby func(context.Context) (T, error),
) (T, error) {
	alone := context.WithoutCancel(ctx)
	switch {
	case f.down.Load():
		f.ask(max(f.retry, f.patience/2))
		return standby(alone)
	case f.late.skip(key, f.now(), f.retry):
		return standby(alone)
	}
	var a answer[T]
	if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > f.patience {
		a = call(ctx, f, key, try)
	} else if answers := detach(alone, f, key, try); answers != nil {
		select {
		case a = <-answers:
		case <-ctx.Done():
			a.away = true
		}
	} else {
		a.away = true
	}
	switch left := errors.Is(ctx.Err(), context.Canceled); {
	case a.away && left && asks:
		a.err = ctx.Err()
	case a.away && left:
		a.err = fmt.Errorf("%w: %w while the call was in flight", store.ErrUnknownOutcome, ctx.Err())
	case a.away:
		return standby(alone)
	}
	return a.value, store.Wrap(backend, "fallback", a.err)
}

// answer is the answer of the wrapped store. If away is set, the store is out of reach.
type answer[T any] struct {
	value T
	err   error
	away  bool
}

// call calls the wrapped store for at most Patience, and notes whether it is out of reach for the
// key.
func call[T any](ctx context.Context, f *fallback, key string, try func(context.Context) (T, error)) (a answer[T]) {
	began := time.Now()
	bound, cancel := context.WithCancel(ctx)
	w := &watch{f: f, cancel: cancel}
	w.timer = time.AfterFunc(time.Hour, w.passed)
	w.timer.Reset(f.patience / 2) // orders the use of w.timer in passed behind its assignment
	a.value, a.err = try(bound)
	w.timer.Stop()
	cancel()
	switch {
	case a.err == nil:
	case w.overdue.Load(), time.Since(began) >= f.patience: // on a busy machine the timer can be late
		a.away = true
	case ctx.Err() != nil:
		return a // the caller has left, which tells nothing about the store
	case outOfReach(a.err):
		a.away = true
		f.ask(f.patience / 2)
	}
	f.late.note(key, a.away, f.now(), f.retry)
	return a
}

// outOfReach reports whether err says that the store is out of reach.
func outOfReach(err error) bool {
	return errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome)
}

// watch cuts a call short that is overdue. When half of Patience has passed, it asks the store its
// question, so that the question is overdue together with the call.
type watch struct {
	f       *fallback
	cancel  context.CancelFunc
	timer   *time.Timer
	half    atomic.Bool
	overdue atomic.Bool
}

// passed runs when half of Patience has passed, and again when all of it has.
func (w *watch) passed() {
	if !w.half.Swap(true) {
		w.timer.Reset(w.f.patience - w.f.patience/2)
		w.f.ask(w.f.patience / 2)
		return
	}
	w.overdue.Store(true)
	w.cancel()
}

// detach is call on a goroutine of its own. It returns nil if there are too many.
func detach[T any](ctx context.Context, f *fallback, key string, try func(context.Context) (T, error)) <-chan answer[T] {
	answers := make(chan answer[T], 1)
	if f.detached.Add(1) > maxDetached || !f.spawn(func() {
		defer f.detached.Add(-1)
		answers <- call(ctx, f, key, try)
	}) {
		f.detached.Add(-1)
		return nil
	}
	return answers
}

// spawn runs g on a goroutine that Close waits for. After Close it returns false.
func (f *fallback) spawn(g func()) bool {
	f.starting.Lock()
	defer f.starting.Unlock()
	if f.closed.Load() {
		return false
	}
	f.running.Go(g)
	return true
}

// question is the bucket that Fallback asks about. No key of a Limiter has such a name, and nobody
// fills it.
var question = store.Op{Bucket: store.Limit{Capacity: 1, LeakRate: 1}.For("@fallback"), Amount: 1, Mode: store.Ask}

// ask asks the store about a bucket that no client can name, unless it was asked less than a pause
// ago. Whether the store answers within half of Patience begins and ends outages.
func (f *fallback) ask(pause time.Duration) {
	now, last := int64(f.now())+1, f.asked.Load()
	if last != 0 && now-last < int64(pause) || !f.asked.CompareAndSwap(last, now) {
		return
	}
	f.spawn(func() {
		ctx, cancel := context.WithTimeout(f.ctx, f.patience/2)
		defer cancel()
		_, err := f.Store.Fill(ctx, question)
		away := outOfReach(err) || errors.Is(err, context.DeadlineExceeded)
		if f.ctx.Err() != nil || f.down.Swap(away) == away {
			return
		}
		if !away {
			err = nil
		}
		f.switched(err)
	})
}

// now returns the time since the wrapper was made.
func (f *fallback) now() time.Duration { return time.Since(f.start) }

// Close ends the questions and closes both stores. Calls that go on without their callers end
// before.
func (f *fallback) Close() error {
	f.starting.Lock()
	f.closed.Store(true)
	f.starting.Unlock()
	f.stop()
	f.running.Wait()
	return errors.Join(f.Store.Close(), f.standby.Close())
}

// lateKeys are keys whose last call failed or was overdue.
type lateKeys struct {
	count atomic.Int32 // of keys, so that nobody locks while there are none
	mu    sync.Mutex
	until map[string]time.Duration // when a call tries the store again
}

// skip reports whether a call of key should not try the store at a time. The first call after the
// time until which the key is late tries, and others go on to skip the store meanwhile.
func (l *lateKeys) skip(key string, now, retry time.Duration) bool {
	if l.count.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	until, late := l.until[key]
	if late && now >= until {
		l.until[key] = now + retry
		return false
	}
	return late
}

// note notes whether key is late at a time, and then skips the store until retry has passed.
func (l *lateKeys) note(key string, late bool, now, retry time.Duration) {
	if !late && l.count.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.until, key)
	if late {
		if len(l.until) == maxLate {
			maps.DeleteFunc(l.until, func(_ string, until time.Duration) bool { return until <= now })
		}
		if len(l.until) < maxLate {
			l.until[strings.Clone(key)] = now + retry // key may be part of a large buffer
		}
	}
	l.count.Store(int32(len(l.until)))
}
