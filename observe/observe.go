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

	"github.com/brimgo/brim/store"
)

const backend = "observe"

// Options adjust a [Store]. The zero value is the default.
type Options struct {
	// Key makes of a bucket's key what the hooks are told of it. Nil tells them nothing. It must be safe for concurrent use.
	Key func(key string) string
	// Now replaces the clock by which calls are timed, for tests. It must be safe for concurrent use.
	Now func() time.Time
}

// HashKey returns a function for [Options.Key] that makes a name of a key, by which its calls can be told from others', and
// which does not give it away to who does not know the secret: 16 hexadecimal digits of HMAC-SHA256. The secret should have
// 32 random bytes; a secret that changes makes names that cannot be joined with the old.
func HashKey(secret []byte) func(key string) string {
	secret = slices.Clone(secret)
	return func(key string) string {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(key)) // never fails
		return hex.EncodeToString(mac.Sum(nil)[:8])
	}
}

// Store is a [store.Store] that calls hooks. It may be used by any number of goroutines at once, if the hooks may. It changes
// no answer.
type Store struct {
	inner store.Store
	hooks Hooks
	key   func(string) string
	now   func() time.Time
}

// New returns a Store in front of s. o may be nil. It fails where s is nil.
func New(s store.Store, h Hooks, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	if s == nil {
		err := fmt.Errorf("%w: there is none to put in front of", store.ErrClosed)
		return nil, &store.Error{Backend: backend, Op: "new", Err: err}
	}
	w := &Store{inner: s, hooks: h, key: o.Key, now: o.Now}
	if w.key == nil {
		w.key = func(string) string { return "" }
	}
	if w.now == nil {
		w.now = time.Now
	}
	return w, nil
}

// span is a call under way.
type span struct {
	ctx   context.Context
	call  Call
	start time.Time
}

func (s *Store) begin(ctx context.Context, m Method, size int) span {
	p := span{ctx: ctx, call: Call{Method: m, Size: size}}
	if s.hooks.Start != nil {
		p.ctx = s.hooks.Start(ctx, p.call)
	}
	if s.hooks.End != nil {
		p.start = s.now()
	}
	return p
}

func (s *Store) end(p *span, failed int, err error) {
	if s.hooks.End != nil {
		s.hooks.End(p.ctx, p.call, End{Took: s.now().Sub(p.start), Err: err, Failed: failed})
	}
}

func (s *Store) decided(ctx context.Context, op *store.Op, st store.State, accepted bool, of int) {
	s.hooks.Decision(ctx, Decision{
		Key: s.key(op.Key), Mode: op.Mode, Amount: op.Amount, Hold: op.Hold,
		State: st, Accepted: accepted, Of: of,
	})
}

// Fill tells the hooks. See [store.Store].
func (s *Store) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if s == nil {
		return store.State{}, store.Wrap(backend, "fill", store.ErrClosed)
	}
	p := s.begin(ctx, Fill, 1)
	st, err := s.inner.Fill(p.ctx, op)
	if err == nil && s.hooks.Decision != nil {
		s.decided(p.ctx, &op, st, st.Accepted, 1)
	}
	s.end(&p, 0, err)
	return st, err
}

// Apply tells the hooks. See [store.Store].
func (s *Store) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	if s == nil {
		return nil, store.Wrap(backend, "apply", store.ErrClosed)
	}
	p := s.begin(ctx, Apply, len(txns))
	results, err := s.inner.Apply(p.ctx, txns...)
	failed := 0
	for i, r := range results {
		if r.Err != nil {
			failed++
			continue
		}
		for j := range r.States {
			if s.hooks.Decision != nil {
				s.decided(p.ctx, &txns[i][j], r.States[j], r.Accepted, len(txns[i]))
			}
		}
	}
	s.end(&p, failed, err)
	return results, err
}

// Read tells the hooks. See [store.Store].
func (s *Store) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	if s == nil {
		return nil, store.Wrap(backend, "read", store.ErrClosed)
	}
	p := s.begin(ctx, Read, len(buckets))
	states, err := s.inner.Read(p.ctx, buckets...)
	s.end(&p, 0, err)
	return states, err
}

// Delete tells the hooks. See [store.Store].
func (s *Store) Delete(ctx context.Context, keys ...string) error {
	if s == nil {
		return store.Wrap(backend, "delete", store.ErrClosed)
	}
	p := s.begin(ctx, Delete, len(keys))
	err := s.inner.Delete(p.ctx, keys...)
	s.end(&p, 0, err)
	return err
}

// Scan tells the hooks. See [store.Store].
func (s *Store) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Entry, error) {
	if s == nil {
		return nil, store.Wrap(backend, "scan", store.ErrClosed)
	}
	p := s.begin(ctx, Scan, limit)
	entries, err := s.inner.Scan(p.ctx, prefix, after, limit)
	s.end(&p, 0, err)
	return entries, err
}

// Prune tells the hooks. See [store.Store].
func (s *Store) Prune(ctx context.Context) (int64, error) {
	if s == nil {
		return 0, store.Wrap(backend, "prune", store.ErrClosed)
	}
	p := s.begin(ctx, Prune, 0)
	n, err := s.inner.Prune(p.ctx)
	s.end(&p, 0, err)
	return n, err
}

// Close closes the store that was given to [New].
func (s *Store) Close() error {
	if s == nil {
		return store.Wrap(backend, "close", store.ErrClosed)
	}
	return s.inner.Close()
}

// canceled reports whether a call failed because its caller gave up.
func canceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
