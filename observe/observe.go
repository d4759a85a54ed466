package observe

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/brimgo/brim/internal/shadow"
	"github.com/brimgo/brim/store"
)

const backend = "observe"

// Options adjust [New]. The zero value selects the defaults.
type Options struct {
	// Key returns the form of a bucket's key that hooks get. If it is nil, hooks get an empty
	// string. It must be safe for concurrent use.
	Key func(key string) string
	// Clock replaces this process's clock, which measures calls, for tests. It must be safe for
	// concurrent use.
	Clock func() time.Time
}

// HashKey returns a function for [Options.Key]. It maps each key to 16 hexadecimal digits of its
// HMAC-SHA256. The digits tell one bucket from another and do not reveal the key without the
// secret.
//
// The secret should be 32 random bytes. After a change of the secret, the digits of a key change
// and cannot be matched with older digits.
func HashKey(secret []byte) func(key string) string {
	secret = slices.Clone(secret)
	return func(key string) string {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(key)) // never fails
		return hex.EncodeToString(mac.Sum(nil)[:8])
	}
}

// observer is the store that New returns.
type observer struct {
	inner store.Store
	hooks Hooks
	key   func(string) string
	clock func() time.Time
}

// New returns a store that wraps s, calls h and changes no answer. It is safe for concurrent use if
// its hooks are. o may be nil. If s is nil, New fails with [store.ErrClosed].
func New(s store.Store, h Hooks, o *Options) (store.Store, error) {
	if o == nil {
		o = &Options{}
	}
	if s == nil {
		err := fmt.Errorf("%w: the store to wrap is nil", store.ErrClosed)
		return nil, &store.Error{Backend: backend, Op: "new", Err: err}
	}
	w := &observer{inner: s, hooks: h, key: o.Key, clock: o.Clock}
	if w.key == nil {
		w.key = func(string) string { return "" }
	}
	if w.clock == nil {
		w.clock = time.Now
	}
	return w, nil
}

// span is a call in flight.
type span struct {
	ctx  context.Context
	call Call
}

func (s *observer) begin(ctx context.Context, m Method, size int) span {
	p := span{ctx: ctx, call: Call{Method: m, Size: size}}
	if s.hooks.Start != nil || s.hooks.End != nil {
		p.call.Start = s.clock()
	}
	if s.hooks.Start != nil {
		p.ctx = s.hooks.Start(ctx, p.call)
	}
	return p
}

func (s *observer) end(p *span, failed int, err error) {
	if s.hooks.End != nil {
		s.hooks.End(p.ctx, p.call, Outcome{Took: s.clock().Sub(p.call.Start), Err: err, Failed: failed})
	}
}

func (s *observer) decided(ctx context.Context, op *store.Op, st store.State, accepted bool, operations int) {
	switch op.Mode {
	case store.Ask:
	case store.Block, store.Unblock:
		if s.hooks.Block == nil || !accepted {
			return
		}
		reason, _ := ctx.Value(reasonKey{}).(string)
		s.hooks.Block(ctx, Block{Mode: op.Mode, Key: s.key(op.Key), Reason: reason, State: st})
	default:
		if s.hooks.Decision == nil {
			return
		}
		amount := op.Amount
		if op.Mode == store.UpTo {
			if amount = op.Least; accepted {
				amount = st.Taken
			}
		}
		limit, begins := op.Limit, time.Time{}
		switch {
		case limit == store.Limit{}: // the one last written
			limit = st.Limit()
		case limit.LeakRate < 0:
			begins = time.UnixMicro(op.Begins).UTC()
		}
		s.hooks.Decision(ctx, Decision{
			Key: s.key(op.Key), Mode: op.Mode, Amount: amount, Hold: op.Hold, Limit: limit, Begins: begins,
			State: st, Accepted: accepted, Operations: operations,
			Shadowed: (op.Mode == store.IfFits || op.Mode == store.UpTo) && !accepted && shadow.In(ctx),
		})
	}
}

// Fill calls the wrapped store and the hooks. See [store.Store].
func (s *observer) Fill(ctx context.Context, op store.Op) (store.State, error) {
	p := s.begin(ctx, MethodFill, 1)
	st, err := s.inner.Fill(p.ctx, op)
	if err == nil {
		s.decided(p.ctx, &op, st, st.Accepted, 1)
	}
	s.end(&p, 0, err)
	return st, err
}

// Answered calls the hooks for an answer that the Limiter gave without the store, as for a call of
// Fill. See [store.Witness].
func (s *observer) Answered(ctx context.Context, op store.Op, st store.State) store.State {
	p := s.begin(ctx, MethodFill, 1)
	st = store.Answered(p.ctx, s.inner, op, st)
	s.decided(p.ctx, &op, st, st.Accepted, 1)
	s.end(&p, 0, nil)
	return st
}

// Apply calls the wrapped store and the hooks. See [store.Store].
func (s *observer) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	p := s.begin(ctx, MethodApply, len(txns))
	results, err := s.inner.Apply(p.ctx, txns...)
	failed := 0
	for i, r := range results {
		if r.Err != nil {
			failed++
			continue
		}
		for j := range r.States {
			s.decided(p.ctx, &txns[i][j], r.States[j], r.Accepted, len(txns[i]))
		}
	}
	s.end(&p, failed, err)
	return results, err
}

// Read calls the wrapped store and the hooks. See [store.Store].
func (s *observer) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	p := s.begin(ctx, MethodRead, len(buckets))
	states, err := s.inner.Read(p.ctx, buckets...)
	s.end(&p, 0, err)
	return states, err
}

// Delete calls the wrapped store and the hooks. See [store.Store].
func (s *observer) Delete(ctx context.Context, keys ...string) error {
	p := s.begin(ctx, MethodDelete, len(keys))
	err := s.inner.Delete(p.ctx, keys...)
	s.end(&p, 0, err)
	return err
}

// Visit calls the wrapped store and the hooks. The call lasts as long as f makes it last. See
// [store.Store].
func (s *observer) Visit(ctx context.Context, prefix string, f func(store.Entry) bool) error {
	p := s.begin(ctx, MethodVisit, 0)
	err := s.inner.Visit(p.ctx, prefix, f)
	s.end(&p, 0, err)
	return err
}

// Size asks the wrapped store. It calls no hook. See [store.Store].
func (s *observer) Size(ctx context.Context) (int64, error) { return s.inner.Size(ctx) }

// Prune calls the wrapped store and the hooks. See [store.Store].
func (s *observer) Prune(ctx context.Context) (int64, error) {
	p := s.begin(ctx, MethodPrune, 0)
	n, err := s.inner.Prune(p.ctx)
	s.end(&p, 0, err)
	return n, err
}

// Close closes the wrapped store. It calls no hook.
func (s *observer) Close() error { return s.inner.Close() }

// canceled reports whether a call failed because its caller's context ended.
func canceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
