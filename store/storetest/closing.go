package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// method is a valid call of a method that takes a context.
type method struct {
	name string
	call func(ctx context.Context, st store.Store) error
}

// methods returns a call of every method that takes a context, and of each mode that the store
// supports and that is not decided like a fill.
func (s *suite) methods() []method {
	limit := store.Limit{Capacity: 10}
	one := store.Op{Bucket: limit.For("b"), Amount: 1}
	calls := []method{
		{"Read", func(ctx context.Context, st store.Store) error {
			_, err := st.Read(ctx, one.Bucket)
			return err
		}},
		{"Delete", func(ctx context.Context, st store.Store) error { return st.Delete(ctx, "kept") }},
		{"Prune", func(ctx context.Context, st store.Store) error {
			_, err := st.Prune(ctx)
			return err
		}},
		{"Visit", func(ctx context.Context, st store.Store) error {
			return st.Visit(ctx, "", func(store.Entry) bool { return true })
		}},
		{"Size", func(ctx context.Context, st store.Store) error {
			_, err := st.Size(ctx)
			if errors.Is(err, errors.ErrUnsupported) {
				_, err = st.Read(ctx, one.Bucket)
			}
			return err
		}},
	}
	for _, op := range []store.Op{
		one,
		{Bucket: one.Bucket},
		{Bucket: one.Bucket, Amount: 1, Mode: store.Ask},
		{Bucket: limit.For("blocked"), BlockFor: time.Hour, Mode: store.Block},
		{Bucket: store.Bucket{Key: "blocked"}, Mode: store.Unblock},
	} {
		if !s.supports(op) {
			continue
		}
		for _, apply := range []bool{false, true} {
			name := fmt.Sprintf("%+v, by Apply: %v", op, apply)
			calls = append(calls, method{name, func(ctx context.Context, st store.Store) error {
				_, err := tryVia(ctx, st, op, apply)
				return err
			}})
		}
	}
	return calls
}

// closing tests that every method of a closed store returns ErrClosed.
func (s *suite) closing(t *testing.T) {
	const why = "after Close every method returns ErrClosed; it neither panics nor answers"
	st := s.openReal(t)
	for _, m := range s.methods() {
		if err := m.call(t.Context(), st); err != nil {
			t.Errorf("%s before Close: %v", m.name, err)
		}
	}
	calling := func(m method) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
		}()
		return m.call(t.Context(), st)
	}
	for i := range 3 {
		if err := st.Close(); err != nil {
			t.Errorf("Close number %d: %v, want nil: a second Close does nothing", i+1, err)
		}
		for _, m := range s.methods() {
			if err := calling(m); !errors.Is(err, store.ErrClosed) {
				t.Errorf("%s after Close: %v, want ErrClosed\nwhy: %s", m.name, err, why)
			}
		}
	}
}

// outcomes counts the units of fills whose callers may not learn whether they were applied.
type outcomes struct{ acknowledged, unknown atomic.Int64 }

// errEstimate is the outcome of a call that another bucket has answered, while the call of the
// store may go on without its caller; see [store.State.Estimate].
var errEstimate = fmt.Errorf("%w: the answer is an estimate", store.ErrUnknownOutcome)

// count counts one unit. It returns err unless err is nil, ErrUnknownOutcome or one of allowed.
func (o *outcomes) count(err error, allowed ...error) error {
	switch {
	case err == nil:
		o.acknowledged.Add(1)
		return nil
	case errors.Is(err, store.ErrUnknownOutcome):
		o.unknown.Add(1)
		return nil
	}
	for _, want := range allowed {
		if errors.Is(err, want) {
			return nil
		}
	}
	return err
}

// check compares the level of a bucket with the counted units.
func (o *outcomes) check(t *testing.T, why string, st store.Store, b store.Bucket) {
	t.Helper()
	got, err := st.Read(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	stored, least, unknown := int64(got[0].Level), o.acknowledged.Load(), o.unknown.Load()
	if stored < least || stored > least+unknown {
		t.Errorf("stored %d, acknowledged %d, outcome unknown %d; want acknowledged <= stored <= acknowledged + unknown\n"+
			"why: %s", stored, least, unknown, why)
	}
}

// closingInFlight closes a store under racing callers. After reopening the store must contain
// all acknowledged fills and no failed one.
func (s *suite) closingInFlight(t *testing.T) {
	const why = "calls in flight complete before Close, or fail with ErrClosed: acknowledged fills are stored, " +
		"failed ones are not"
	st := s.reopenable(t, nil)
	closing := *st
	b := store.Limit{Capacity: 1 << 50}.For("b")
	var o outcomes
	s.crowd(t, why, 17, func(ctx context.Context, g int) error {
		for g < 16 {
			_, err := tryVia(ctx, closing, store.Op{Bucket: b, Amount: 1}, g%4 == 0)
			if bad := o.count(err, store.ErrClosed); bad != nil || err != nil {
				return bad
			}
		}
		for o.acknowledged.Load() < 200 && ctx.Err() == nil {
			// Reads keep this caller busy until enough of the others have been answered.
			if _, err := closing.Read(ctx, b); err != nil {
				return err
			}
		}
		return closing.Close()
	})
	*st = s.o.Reopen(t, *st, nil)
	o.check(t, why, *st, b)
}

func (s *suite) contexts(t *testing.T) {
	t.Run("already done", s.contextDone)
	t.Run("cancelled in flight", s.contextInFlight)
}

// contextDone calls every method with a context that is already done.
func (s *suite) contextDone(t *testing.T) {
	const why = "if the context is already done, a method returns the context's error and does nothing"
	st := s.real(t)
	if _, err := st.Fill(t.Context(), store.Op{Bucket: store.Limit{Capacity: 10}.For("kept"), Amount: 3}); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Hour))
	defer cancel()
	for _, m := range s.methods() {
		for _, ctx := range []context.Context{cancelled, late} {
			err := m.call(ctx, st)
			if !errors.Is(err, ctx.Err()) || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("%s: %v, want %v\nwhy: %s", m.name, err, ctx.Err(), why)
			}
		}
	}
	list := entriesOf(t, st, "")
	if len(list) != 1 || list[0].Key != "kept" || list[0].Level != 3 {
		t.Errorf("afterwards %+v; want one unchanged bucket\nwhy: %s", list, why)
	}
}

// contextInFlight cancels some callers in the middle of a call, beside neighbours that are not
// cancelled.
func (s *suite) contextInFlight(t *testing.T) {
	const why = "an error other than ErrUnknownOutcome means that nothing was applied; the cancelled context of one " +
		"caller must not fail or delay its neighbours"
	st := s.real(t)
	limit := store.Limit{Capacity: 1 << 50}
	hot := store.Op{Bucket: limit.For("hot"), Amount: 1}
	cold := func(g int) store.Op { return store.Op{Bucket: limit.For(fmt.Sprintf("cold/%d", g%4)), Amount: 1} }
	apply := func(ctx context.Context, ops ...store.Op) error {
		res, err := st.Apply(ctx, ops)
		for i := range ops { // a caller may use its operations again, also while a call of unknown outcome goes on
			ops[i].Amount = 1 << 40
		}
		if err == nil {
			err = errors.Join(res[0].Err, wants(res[0].Err != nil || res[0].Accepted, "Apply", res, nil))
		}
		if err == nil && res[0].States[0].Estimate {
			err = errEstimate
		}
		return err
	}
	var o outcomes
	var cancelling atomic.Int64
	cancelling.Store(16)
	s.crowd(t, why, 24, func(ctx context.Context, g int) error {
		// A neighbour calls until a call of its own has begun after the last cancelled one: it
		// cannot be done before the others have been cancelled.
		for last := false; g >= 16 && !last; {
			last = cancelling.Load() == 0
			got, err := st.Fill(ctx, hot)
			if bad := wants(got.Accepted, "call that was not cancelled", got, err); bad != nil {
				return bad
			}
			o.acknowledged.Add(1)
		}
		if g >= 16 {
			return nil
		}
		defer cancelling.Add(-1)
		for i := range 20 {
			// The timeouts differ, so that some calls are cancelled before they are sent, some in
			// flight, and some too late. A store waits in the wall time, and so does this.
			short, cancel := context.WithTimeout(ctx, time.Duration(g*i%32)*32*time.Microsecond)
			defer cancel()
			var err error
			if g%2 == 0 {
				var got store.State
				if got, err = st.Fill(short, hot); err == nil && got.Estimate {
					err = errEstimate
				}
			} else {
				err = apply(short, cold(g), hot)
			}
			if bad := o.count(err, context.Canceled, context.DeadlineExceeded); bad != nil {
				return bad
			}
		}
		return nil
	})
	s.crowd(t, why, 1, func(ctx context.Context, _ int) error {
		return o.count(apply(ctx, hot, cold(0), cold(1)))
	})
	o.check(t, why, st, hot.Bucket)
}

// failing tests that a request that cannot be decided fails alone.
func (s *suite) failing(t *testing.T) {
	const why = "a request that fails in a combined batch must not fail its neighbours"
	limit := store.Limit{Capacity: 1 << 40}
	st := s.real(t)
	s.crowd(t, why, 32, func(ctx context.Context, g int) error {
		for i := range 8 {
			fill := store.Op{Bucket: limit.For([]string{"hot", fmt.Sprint(g % 4)}[i%2]), Amount: 1}
			if g%4 > 0 {
				if got, err := st.Fill(ctx, fill); err != nil || !got.Accepted {
					return wants(false, "fill beside failing requests", got, err)
				}
				continue
			}
			release := store.Op{Bucket: fill.Bucket, Hold: -4, Mode: store.Always}
			if _, err := st.Fill(ctx, release); !errors.Is(err, store.ErrNotHeld) {
				return wants(false, "release of units that are not held", nil, err)
			}
			release.Bucket = limit.For("other")
			res, err := st.Apply(ctx, store.Txn{fill, release})
			if err != nil || !errors.Is(res[0].Err, store.ErrNotHeld) {
				return wants(false, "transaction with a failing release", res, err)
			}
		}
		return nil
	})
	got, err := st.Read(t.Context(), limit.For("hot"), limit.For("0"), limit.For("1"), limit.For("other"))
	if err != nil || got[0].Level != 96 || got[1].Level != 0 || got[2].Level != 32 || got[3].Level != 0 {
		t.Errorf("afterwards %+v, %v; want levels 96, 0, 32 and 0\nwhy: %s", got, err, why)
	}
}

// unsupported tests that the store answers operations that it does not support with
// ErrUnsupported, and never ignores a mode or a field.
func (s *suite) unsupported(t *testing.T) {
	const why = "a store that ignores a mode or field decides another operation than the caller asked for"
	st := s.real(t)
	b := store.Limit{Capacity: 10}.For("b")
	var ops []store.Op
	for _, mode := range []store.Mode{store.UpTo + 1, 100, 255} {
		ops = append(ops, store.Op{Bucket: b, Amount: 1, Mode: mode}, store.Op{Bucket: b, Hold: 1, Mode: mode},
			store.Op{Bucket: b, Mode: mode})
	}
	for _, op := range []store.Op{
		{Amount: 1},
		{Amount: -1},
		{Amount: 1, Mode: store.Clamp},
		{Amount: 1, Mode: store.Always},
		{Hold: 1},
		{Amount: 1, Hold: -4, Mode: store.Always},
		{Amount: 1, Ceiling: 5},
		{Amount: -1, Ceiling: 5, CeilingAt: time.Now()},
		{Amount: 11, BlockFor: time.Hour},
		{Amount: 11, BlockFor: store.UntilEmpty},
		{BlockFor: time.Hour, Mode: store.Block},
		{Mode: store.Unblock},
		{Amount: 2, Least: 1, Mode: store.UpTo},
	} {
		if op.Bucket = b; !s.supports(op) {
			ops = append(ops, op)
		}
	}
	for _, op := range ops {
		_, err := st.Fill(t.Context(), op)
		// The whole call of Apply may fail, or the transaction alone. Either way nothing may go in.
		res, applied := st.Apply(t.Context(), store.Txn{{Bucket: store.Limit{Capacity: 10}.For("a"), Amount: 1}, op})
		if applied == nil && len(res) == 1 {
			applied = res[0].Err
		}
		if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(applied, errors.ErrUnsupported) {
			t.Errorf("%+v: Fill returns %v, and Apply %v; want errors.ErrUnsupported\nwhy: %s", op, err, applied, why)
		}
	}
	if got := visited(t, st, ""); len(got) != 0 {
		t.Errorf("unsupported operations left buckets %q, want none", got)
	}
}
