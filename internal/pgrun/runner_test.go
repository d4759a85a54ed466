package pgrun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/brimgo/brim/internal/combine"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/store"
)

// TestMain fails if a goroutine is left when all tests have closed their runners.
func TestMain(m *testing.M) {
	code := pgtest.Run(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runner returns a runner over a pool of its own, with at most that many connections.
func runner(t *testing.T, conns int32, o Options) *Runner {
	t.Helper()
	pool := pgtest.PoolAt(t, pgtest.With(t, fmt.Sprint("pool_max_conns=", conns)))
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	o.Log = slog.New(slog.DiscardHandler)
	r, err := New(pool, "test", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

type request = combine.Request[int, int]

// doubles returns a combiner whose transactions double numbers on the server. Division by zero
// makes the server refuse a batch that has a zero.
func doubles(t *testing.T, r *Runner, b Batching) *Combiner[int, int] {
	t.Helper()
	c, err := NewTransactions(r, b, func(ctx context.Context, _ *Lane, conn *pgxpool.Conn, batch []*request) error {
		in := make([]int, len(batch))
		for i, request := range batch {
			in[i] = request.In
		}
		i := 0
		const sql = "SELECT 2 * n * (n / n) FROM unnest($1::int[]) WITH ORDINALITY AS u (n, i) ORDER BY i"
		_, err := r.Query(ctx, conn, sql, []any{in}, func(rows pgx.Rows) error {
			i++
			return rows.Scan(&batch[i-1].Out)
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTransactions(t *testing.T) {
	r := runner(t, 1, Options{})
	c := doubles(t, r, Batching{})
	// While the only connection is taken, all requests but the first queue for one batch.
	taken, err := r.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for n := range 50 {
		wg.Go(func() {
			out, err := c.Do(context.Background(), uint64(n), n)
			if n == 0 {
				if !errors.Is(err, store.ErrMisconfigured) || !IsCode(err, "22012") {
					t.Errorf("a request that the server refuses: %d, %v", out, err)
				}
			} else if err != nil || out != 2*n {
				t.Errorf("the neighbour %d: %d, %v", n, out, err)
			}
		})
	}
	taken.Release()
	wg.Wait()
}

func TestClose(t *testing.T) {
	r := runner(t, 1, Options{})
	child := r.As("child")
	of := map[string]*Combiner[int, int]{
		"the runner's": doubles(t, r, Batching{}),
		"the child's":  doubles(t, child, Batching{}),
	}
	call := func(r *Runner) error {
		return r.Look(t.Context(), "look", func(ctx context.Context, conn *pgxpool.Conn) error { return conn.Ping(t.Context()) })
	}
	other := r.As("other")
	other.Close()
	other.Close()
	if err := call(other); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a closed runner answers %v", err)
	}
	if err := errors.Join(call(r), call(child)); err != nil {
		t.Errorf("its parent and its sibling answer %v", err)
	}
	of["the runner's"].Close()
	if len(r.made) != 1 {
		t.Errorf("the runner keeps %d closers; want the child alone", len(r.made))
	}
	r.Close()
	for name, c := range of {
		if _, err := c.Do(t.Context(), 0, 1); !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s combiner answers %v after Close", name, err)
		}
	}
	late := doubles(t, child, Batching{})
	if _, err := late.Do(t.Context(), 0, 1); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a combiner of a closed runner answers %v", err)
	}
	for name, r := range map[string]*Runner{"runner": r, "child": child, "grandchild": r.As("late")} {
		for op, err := range map[string]error{
			"look":     call(r),
			"change":   r.Change(t.Context(), "change", func(context.Context, *pgxpool.Conn) error { t.Error("called"); return nil }),
			"transact": r.Transact(t.Context(), "transact", func(pgx.Tx) error { t.Error("called"); return nil }),
		} {
			if e := (*store.Error)(nil); !errors.Is(err, store.ErrClosed) || !errors.As(err, &e) || e.Op != op {
				t.Errorf("%s of a closed %s: %v", op, name, err)
			}
		}
	}
}

// TestLook sees that a transaction that a call left open is rolled back, so that the pool keeps
// its connection.
func TestLook(t *testing.T) {
	r := runner(t, 1, Options{})
	var pids []uint32
	for range 2 {
		err := r.Look(t.Context(), "look", func(ctx context.Context, conn *pgxpool.Conn) error {
			pids = append(pids, conn.Conn().PgConn().PID())
			_, err := conn.Exec(t.Context(), "BEGIN")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if pids[0] != pids[1] {
		t.Error("the connection was not kept")
	}
	err := r.Look(t.Context(), "look", func(ctx context.Context, conn *pgxpool.Conn) error {
		_, err := conn.Exec(t.Context(), "SELECT 1/0")
		return err
	})
	var e *store.Error
	if !errors.Is(err, store.ErrMisconfigured) || !errors.As(err, &e) || e.Backend != "test" || e.Op != "look" {
		t.Errorf("a look that fails: %v", err)
	}
}

// TestQuery counts rows, with and without a transaction around the statement, and stops at the
// error of a row.
func TestQuery(t *testing.T) {
	r := runner(t, 1, Options{})
	for _, explicit := range []bool{false, true} {
		r.explicit.Store(explicit)
		t.Run(fmt.Sprint("explicit isolation: ", explicit), func(t *testing.T) {
			err := r.Change(t.Context(), "change", func(ctx context.Context, conn *pgxpool.Conn) error {
				each := func(pgx.Rows) error { return nil }
				n, err := r.Query(t.Context(), conn, "SELECT generate_series(1, $1::int)", []any{7}, each)
				if n != 7 {
					t.Errorf("%d rows, want 7", n)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			boom := errors.New("boom")
			err = r.Change(t.Context(), "change", func(ctx context.Context, conn *pgxpool.Conn) error {
				each := func(pgx.Rows) error { return boom }
				_, err := r.Query(t.Context(), conn, "SELECT generate_series(1, 7)", nil, each)
				return err
			})
			if !errors.Is(err, boom) {
				t.Errorf("error %v, want that of the row", err)
			}
		})
	}
}

// TestOneBadRequestIsFoundByHalves has every batch with a certain request refused. Its neighbours
// wait for some twenty transactions, and not for a thousand.
func TestOneBadRequestIsFoundByHalves(t *testing.T) {
	const n = 1024
	l := &Lane{r: runner(t, 1, Options{})}
	if err := l.acquire(); err != nil {
		t.Fatal(err)
	}
	defer l.release()
	for _, bad := range []int{0, 1, n / 2, n - 1} {
		attempts, answered := 0, 0
		flush := Transactions(l, func(_ context.Context, _ *Lane, _ *pgxpool.Conn, batch Batch[int, int]) error {
			attempts++
			for _, r := range batch {
				if r.In == bad {
					return coded("22021")
				}
			}
			answered += len(batch)
			return nil
		})
		batch := make(Batch[int, int], n)
		for i := range batch {
			batch[i] = &request{In: i}
		}
		if open := flush(t.Context(), batch); len(open) != 0 {
			t.Errorf("%d requests are open", len(open))
		}
		for i, r := range batch {
			if (r.Err != nil) != (i == bad) {
				t.Errorf("request %d: %v", i, r.Err)
			}
		}
		if attempts > 21 || answered != n-1 {
			t.Errorf("request %d: %d attempts answered %d requests; want at most 21 and %d", bad, attempts, answered, n-1)
		}
	}
}

// TestHeldRowIsFoundOnce has a caller leave while its flush finds that a row is held. The next
// call for the row begins on the slow lane, so that it stalls no flush of others.
func TestHeldRowIsFoundOnce(t *testing.T) {
	r := runner(t, 2, Options{})
	var leave context.CancelFunc
	var lanes []*Lane
	flushes := map[*Lane]int{}
	c, err := NewCombiner(r, Batching{Lanes: 1}, func(l *Lane) Flush[int, int] {
		lanes = append(lanes, l)
		return func(_ context.Context, batch Batch[int, int]) Batch[int, int] {
			flushes[l]++
			leave()
			return batch // a stranger holds the row
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	// Each caller leads its flush. The numbers are the flushes of the usual lane, and 1 if the slow
	// one had any.
	for _, want := range [][2]int{{2, 0}, {2, 1}} {
		ctx, cancel := context.WithCancel(t.Context())
		leave = cancel
		if _, err := c.Do(ctx, 7, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("the caller that left: %v", err)
		}
		if got := [2]int{flushes[lanes[0]], min(1, flushes[lanes[1]])}; got != want {
			t.Errorf("%d flushes of the usual lane, %d of the slow one; want %d", got[0], got[1], want)
		}
	}
}
