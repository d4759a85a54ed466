package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// cut is a proxy's way to treat the next request.
type cut int32

const (
	pass      cut = iota
	before        // the connection breaks, and the server never sees the request
	after         // the server answers, and the connection breaks before the answer arrives
	swallowed     // the server answers, and nothing arrives: a partition
)

// proxy is a proxy before the shared server. It cuts a connection when it was told to.
type proxy struct {
	*wire.Proxy
	next   atomic.Int32 // a cut, for the next request
	skip   atomic.Int32 // requests that pass before the cut
	cuts   atomic.Int32 // so far
	doomed sync.Map     // of *wire.Link to the cut of its next answer
}

// newProxy returns a proxy and a connection string that leads through it.
func newProxy(t *testing.T, server string) (*proxy, string) {
	t.Helper()
	p := &proxy{}
	var err error
	if p.Proxy, err = wire.New(server, p.pass); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, p.URL()
}

// pass is the proxy's policy. A request comes in one piece, and its answer in one or more.
func (p *proxy) pass(l *wire.Link, d wire.Direction, piece []byte) wire.Fate {
	if d == wire.ToClient {
		c, ok := p.doomed.LoadAndDelete(l)
		switch {
		case !ok:
			return wire.Pass(piece)
		case c == after:
			p.cuts.Add(1)
			return wire.Fate{End: wire.Close}
		}
		p.cuts.Add(1)
		return wire.Fate{}
	}
	if p.next.Load() != int32(pass) && p.skip.Add(-1) < 0 {
		switch c := cut(p.next.Swap(int32(pass))); c {
		case before:
			p.cuts.Add(1)
			return wire.Fate{End: wire.Close}
		default:
			p.doomed.Store(l, c)
		}
	}
	return wire.Pass(piece)
}

// arm makes the proxy cut a connection at the request after skip others.
func (p *proxy) arm(c cut, skip int32) {
	p.skip.Store(skip)
	p.next.Store(int32(c))
}

// TestConnectionCut breaks a connection during a call. The caller cannot know the outcome, so
// the error says that it is unknown, but not of a question, which changes nothing. The next call
// goes through.
func TestConnectionCut(t *testing.T) {
	leakFree(t)
	call := func(o store.Op) func(*testing.T, *postgres.Store) error {
		return func(t *testing.T, s *postgres.Store) error { _, err := s.Fill(t.Context(), o); return err }
	}
	b := steady.For(secret)
	try, hold := call(op(b, 1, store.IfFits)), call(store.Op{Bucket: b, Hold: 1})
	ask := call(op(b, 1, store.Ask))
	askSeveral := func(t *testing.T, s *postgres.Store) error { return calls(s, b)["ask for several"](t.Context()) }
	update := func(t *testing.T, s *postgres.Store) error {
		return s.Update(t.Context(), func(in store.Store) error { _, err := in.Fill(t.Context(), op(b, 1, store.IfFits)); return err })
	}
	const unseen, committed = "the client cannot see how far the request came", "the server has committed"
	const none, exec, described = "", "default_query_exec_mode=exec", "default_query_exec_mode=cache_describe"
	const serializable = "default_transaction_isolation=serializable"
	for _, c := range []struct {
		name    string
		setting string
		call    func(*testing.T, *postgres.Store) error
		cut     cut
		skip    int32 // requests that pass before the cut
		applied bool
		why     string // empty for a question
	}{
		{"try, before the request passes", none, try, before, 0, false, unseen},
		{"try, before the answer", none, try, after, 0, true, committed},
		{"try, partitioned", none, try, swallowed, 0, true, "no answer is not a no"},
		{"try in exec mode, before the answer", exec, try, after, 0, true, committed},
		{"try in a transaction, before the request passes", serializable, try, before, 0, false, unseen},
		{"try in a transaction, before the answer", serializable, try, after, 0, true, committed},
		{"try in a transaction in exec mode, before the answer", serializable + "&" + exec, try, after, 0, true, committed},
		{"hold, before the commit passes", none, hold, before, 1, false, unseen},
		{"hold, before the commit's answer", none, hold, after, 1, true, committed},
		{"hold in exec mode, before the commit's answer", exec, hold, after, 1, true, committed},
		{"hold in exec mode, partitioned", exec, hold, swallowed, 1, true, "no answer is not a no"},
		{"hold with descriptions, before the commit's answer", described, hold, after, 1, true, committed},
		{"update, before the commit passes", none, update, before, 2, false, unseen},
		{"update, before the commit's answer", none, update, after, 2, true, committed},
		{"question, before the request passes", none, ask, before, 0, false, ""},
		{"question, before the answer", none, ask, after, 0, false, ""},
		{"question, partitioned", none, ask, swallowed, 0, false, ""},
		{"question about several, before the answer", none, askSeveral, after, 0, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // some wait
			direct := pgtest.Pool(t)
			schema := migrated(t)
			// On a slow machine more than a second passes between two calls. The cut must hit
			// neither the ping of the pool nor the store's question for the size of its table,
			// which is asked about a large table each minute.
			execute(t, direct, "INSERT INTO "+table(t, schema)+` (level, atime, capacity, leak_rate, key)
				SELECT 0, now(), 1, 0, 'row' || n FROM generate_series(1, 30000) AS n`)
			p, url := newProxy(t, pgtest.URL(t))
			url = tune(url, "pool_max_conns=1")
			if c.setting != none {
				url = tune(url, c.setting)
			}
			pool := pgtest.PoolAt(t, url, func(c *pgxpool.Config) {
				c.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
			})
			timeout := time.Minute // a cut is noticed at once, however busy the machine is
			if c.cut == swallowed {
				timeout = 2 * time.Second
			}
			s := over(t, pool, postgres.Options{Schema: schema, StatementTimeout: timeout})
			if strings.Contains(c.setting, serializable) { // the store learns the isolation from a failure
				other := steady.For("other")
				fill(t, s, op(other, 1, store.Clamp))
				tx, err := direct.Begin(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				fill(t, over(t, direct, postgres.Options{Schema: schema}).With(tx), op(other, 1, store.Clamp))
				done := make(chan error, 1)
				go func() { _, err := s.Fill(t.Context(), op(other, 1, store.Clamp)); done <- err }()
				somebodyWaits(t, direct, schema)
				end(t, tx, true)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			units := func() float64 {
				st := stateOf(t, over(t, direct, postgres.Options{Schema: schema}), secret)
				return st.Level + st.Held
			}
			if err := c.call(t, s); err != nil { // prepares the statements, so that the next request is the call itself
				t.Fatal(err)
			}

			p.arm(c.cut, c.skip)
			sentinel, unit, want := store.ErrUnknownOutcome, 1.0, 1.0
			if c.why == "" {
				sentinel, unit, want = store.ErrUnavailable, 0, 0
			}
			if c.applied {
				want += unit
			}
			wantError(t, c.call(t, s), sentinel)
			if got := units(); got != want {
				t.Errorf("the bucket holds %v, want %v: %s", got, want, c.why)
			}
			if n := p.cuts.Load(); n != 1 {
				t.Errorf("%d cuts, want 1", n)
			}
			if err := c.call(t, s); err != nil || units() != want+unit {
				t.Errorf("the next call: %v, and the bucket holds %v", err, units())
			}
			clean(t, pool)
		})
	}
}

// TestConnectionFoundClosed closes connections between calls. The call makes another
// connection, and the caller notices nothing.
func TestConnectionFoundClosed(t *testing.T) {
	leakFree(t)
	direct := pgtest.Pool(t)
	schema := migrated(t)
	pool := pgtest.PoolAt(t, pgtest.With(t, "pool_max_conns=1&application_name=doomed_"+schema))
	s := over(t, pool, postgres.Options{Schema: schema})
	b := steady.For(secret)
	applied, unknown := 0.0, 0.0
	for range 20 {
		switch _, err := s.Fill(t.Context(), op(b, 1, store.IfFits)); {
		case err == nil:
			applied++
		case errors.Is(err, store.ErrUnknownOutcome):
			unknown++
			wantError(t, err, store.ErrUnknownOutcome)
		default:
			wantError(t, err, store.ErrUnavailable)
		}
		scalar[int](t, direct, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1", "doomed_"+schema)
	}
	if got := stateOf(t, over(t, direct, postgres.Options{Schema: schema}), secret).Level; got < applied || got > applied+unknown {
		t.Errorf("level %v; %v were acknowledged and %v are of unknown outcome", got, applied, unknown)
	}
	if applied < 10 {
		t.Errorf("only %v of 20 calls went through", applied)
	}
}

// TestConnectionLostForGood breaks a connection while the calls of a batch are sent one by one,
// and no other connection can be made. Each call gets its own answer. Only a call in flight has
// an unknown outcome.
func TestConnectionLostForGood(t *testing.T) {
	for name, kind := range map[string]func(store.Bucket) store.Op{
		"try":  func(b store.Bucket) store.Op { return op(b, 1, store.IfFits) },
		"hold": func(b store.Bucket) store.Op { return store.Op{Bucket: b, Hold: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			leakFree(t)
			direct := pgtest.Pool(t)
			schema := migrated(t)
			p, url := newProxy(t, pgtest.URL(t))
			pool := pgtest.PoolAt(t, tune(url, "pool_max_conns=1"))
			s := over(t, pool, postgres.Options{Schema: schema, Lanes: 1})
			fill(t, s, kind(steady.For(secret)))
			taken, err := pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer taken.Release() // a pool does not close without it, should the test fail
			const good = 30
			var applied, unknown atomic.Int64
			var wg sync.WaitGroup
			// One caller flushes its own request, so that all others are one batch.
			wg.Go(func() { fill(t, s, kind(steady.For(secret))) })
			until(t, "the first to wait for a connection", func() bool { return strings.Contains(stacks(), "pgrun.(*Lane).connect") })
			wg.Go(func() {
				_, err := s.Fill(t.Context(), kind(steady.For("\x00")))
				wantError(t, err, store.ErrInvalidKey, "22021")
			})
			until(t, "the one that the server refuses to queue", queued(1)) // its answer comes before the connection is lost
			for i := range good {
				wg.Go(func() {
					switch _, err := s.Fill(t.Context(), kind(steady.For(fmt.Sprint(i)))); {
					case err == nil:
						applied.Add(1)
					case errors.Is(err, store.ErrUnknownOutcome):
						wantError(t, err, store.ErrUnknownOutcome, "closed the connection")
						unknown.Add(1)
					default:
						wantError(t, err, store.ErrUnavailable)
					}
				})
			}
			until(t, "all others to queue", queued(good+1))
			if err := p.Refuse(); err != nil {
				t.Error(err)
			}
			p.arm(after, 21) // amid the parts of the batch
			taken.Release()
			wg.Wait()
			if n := unknown.Load(); n > good/2+1 || p.cuts.Load() != 1 {
				t.Errorf("%d outcomes are unknown after %d cuts", n, p.cuts.Load())
			}
			there := list(t, over(t, direct, postgres.Options{Schema: schema}), "")
			if n := int64(len(there)) - 1; n < applied.Load() || n > applied.Load()+unknown.Load() {
				t.Errorf("%d buckets; %d were acknowledged and %d are of unknown outcome", n, applied.Load(), unknown.Load())
			}
		})
	}
}

// queued reports whether so many callers wait for an answer.
func queued(callers int) func() bool {
	const waiting = "[select]:\ngithub.com/brimgo/brim/internal/combine.(*Combiner[...]).await("
	return func() bool { return strings.Count(stacks(), waiting) == callers }
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
