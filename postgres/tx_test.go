package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// charges is a store beside a table of the application.
type charges struct {
	pool   *pgxpool.Pool
	schema string
	s      *postgres.Store
}

func newCharges(t *testing.T, o postgres.Options) *charges {
	t.Helper()
	pool := pgtest.Pool(t)
	o.Schema = migrated(t)
	execute(t, pool, "CREATE TABLE "+o.Schema+".charges (units float8)")
	return &charges{pool: pool, schema: o.Schema, s: over(t, pool, o)}
}

func (c *charges) begin(t *testing.T, level pgx.TxIsoLevel) pgx.Tx {
	t.Helper()
	tx, err := c.pool.BeginTx(context.Background(), pgx.TxOptions{IsoLevel: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

func (c *charges) insert(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if _, err := tx.Exec(t.Context(), "INSERT INTO "+c.schema+".charges VALUES (1)"); err != nil {
		t.Fatal(err)
	}
}

// joined is a transaction of the application with the store in it.
type joined struct {
	store.Store
	exec func(sql string) error
	done func(commit bool) error
}

// ways are the ways into a transaction of the application.
var ways = map[string]func(t *testing.T, c *charges, level pgx.TxIsoLevel) *joined{
	"With": func(t *testing.T, c *charges, level pgx.TxIsoLevel) *joined {
		tx := c.begin(t, level)
		return &joined{
			Store: c.s.With(tx),
			exec:  func(sql string) error { _, err := tx.Exec(t.Context(), sql); return err },
			done: func(commit bool) error {
				if commit {
					return tx.Commit(t.Context())
				}
				return tx.Rollback(t.Context())
			},
		}
	},
	"WithSQL": func(t *testing.T, c *charges, level pgx.TxIsoLevel) *joined {
		tx := c.beginSQL(t, level)
		return &joined{
			Store: c.s.WithSQL(tx),
			exec:  func(sql string) error { _, err := tx.ExecContext(t.Context(), sql); return err },
			done: func(commit bool) error {
				if commit {
					return tx.Commit()
				}
				return tx.Rollback()
			},
		}
	},
}

func (c *charges) beginSQL(t *testing.T, level pgx.TxIsoLevel) *sql.Tx {
	t.Helper()
	levels := map[pgx.TxIsoLevel]sql.IsolationLevel{
		pgx.ReadCommitted: sql.LevelReadCommitted, pgx.RepeatableRead: sql.LevelRepeatableRead, pgx.Serializable: sql.LevelSerializable,
	}
	db := stdlib.OpenDBFromPool(c.pool)
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(context.Background(), &sql.TxOptions{Isolation: levels[level]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// charge inserts a row of the application's.
func (c *charges) charge(t *testing.T, in *joined) {
	t.Helper()
	if err := in.exec("INSERT INTO " + c.schema + ".charges VALUES (1)"); err != nil {
		t.Fatal(err)
	}
}

// end ends the transaction.
func (in *joined) end(t *testing.T, commit bool) {
	t.Helper()
	if err := in.done(commit); err != nil {
		t.Fatal(err)
	}
}

func end(t *testing.T, tx pgx.Tx, commit bool) {
	t.Helper()
	err := tx.Rollback
	if commit {
		err = tx.Commit
	}
	if err := err(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestWithCommitsTogether sees that fills in a caller's transaction commit, or roll back, with
// the caller's rows, and that the transaction reads them before.
func TestWithCommitsTogether(t *testing.T) {
	leakFree(t)
	c := newCharges(t, postgres.Options{})
	limit := store.Limit{Capacity: 10}
	run := func(way string, level pgx.TxIsoLevel) {
		for _, commit := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, %s, committed %v", way, level, commit), func(t *testing.T) {
				execute(t, c.pool, "TRUNCATE "+c.schema+".charges")
				if err := c.s.Delete(t.Context(), "old", "new", "pair"); err != nil {
					t.Fatal(err)
				}
				fill(t, c.s, op(limit.For("old"), 1, store.IfFits))
				in := ways[way](t, c, level)
				c.charge(t, in)
				if st := fill(t, in, op(limit.For("old"), 2, store.IfFits)); !st.Accepted || st.Level != 3 {
					t.Errorf("%+v; want level 3", st)
				}
				if st := fill(t, in, op(limit.For("new"), 4, store.Clamp)); st.Level != 4 {
					t.Errorf("%+v; want level 4", st)
				}
				if st := fill(t, in, op(limit.For("new"), 7, store.IfFits)); st.Accepted || st.RetryAfter != store.Never {
					t.Errorf("%+v; 4 and 7 are more than 10", st)
				}
				res, err := in.Apply(t.Context(),
					store.Txn{op(limit.For("pair"), 5, store.IfFits), op(limit.For("old"), 5, store.IfFits)},
					store.Txn{op(limit.For("pair"), 1, store.IfFits), op(limit.For("old"), 5, store.IfFits)})
				if err != nil || !res[0].Accepted || res[1].Accepted {
					t.Errorf("apply: %+v, %v; want the first accepted and the second refused", res, err)
				}
				// The transaction reads its own fills, and no other does.
				for key, want := range map[string]float64{"old": 8, "new": 4, "pair": 5} {
					levelIs(t, in, key, want)
				}
				levelIs(t, c.s, "old", 1)
				if n := len(list(t, in, "")); n != 3 {
					t.Errorf("visit: %d buckets; want 3", n)
				}
				if n, err := in.Size(t.Context()); n == 0 || err != nil {
					t.Errorf("size: %d, %v", n, err)
				}
				if n, err := in.Prune(t.Context()); n != 0 || !errors.Is(err, errors.ErrUnsupported) {
					t.Errorf("prune: %v", err)
				}
				in.end(t, commit)
				want := map[string]float64{"old": 1, "new": 0, "pair": 0}
				rows := 0
				if commit {
					want, rows = map[string]float64{"old": 8, "new": 4, "pair": 5}, 1
				}
				for key, want := range want {
					levelIs(t, c.s, key, want)
				}
				if n := scalar[int](t, c.pool, "SELECT count(*) FROM "+c.schema+".charges"); n != rows {
					t.Errorf("%d rows of the caller's, want %d", n, rows)
				}
			})
		}
	}
	for way := range ways {
		for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
			run(way, level)
		}
	}
	clean(t, c.pool)
}

// TestWithSerializationFailure fills a bucket at REPEATABLE READ that somebody has filled since
// the transaction began. The error has the server's code, and tells the caller to run the whole
// transaction again.
func TestWithSerializationFailure(t *testing.T) {
	c := newCharges(t, postgres.Options{})
	for name, o := range map[string]func(store.Bucket) store.Op{
		"try":    func(b store.Bucket) store.Op { return op(b, 1, store.IfFits) },
		"fillup": func(b store.Bucket) store.Op { return op(b, 1, store.Clamp) },
		"hold":   func(b store.Bucket) store.Op { return store.Op{Bucket: b, Hold: 1} },
	} {
		for way, join := range ways {
			t.Run(way+", "+name, func(t *testing.T) {
				b := steady.For(secret + way + name)
				fill(t, c.s, op(b, 1, store.IfFits))
				in := join(t, c, pgx.RepeatableRead)
				c.charge(t, in) // takes the snapshot
				fill(t, c.s, op(b, 1, store.IfFits))
				_, err := in.Fill(t.Context(), o(b))
				wantError(t, err, store.ErrUnavailable, "40001", "run the whole transaction again")
				if pg := (*pgconn.PgError)(nil); !errors.As(err, &pg) || pg.Code != "40001" {
					t.Errorf("the code is not to be found in %v", err)
				}
				in.end(t, false)
				levelIs(t, c.s, b.Key, 2)
			})
		}
	}
}

// TestWithHoldsTheRow sees that a transaction keeps its buckets locked until its end, and that
// others wait for it.
func TestWithHoldsTheRow(t *testing.T) {
	for way, join := range ways {
		t.Run(way, func(t *testing.T) {
			leakFree(t)
			c := newCharges(t, postgres.Options{})
			b := store.Limit{Capacity: 3}.For(secret)
			in := join(t, c, pgx.ReadCommitted)
			fill(t, in, op(b, 2, store.IfFits)) // a new row, which only this transaction sees
			waits := make(chan store.State, 1)
			go func() {
				st, err := c.s.Fill(context.Background(), op(b, 1, store.IfFits))
				if err != nil {
					t.Error(err)
				}
				waits <- st
			}()
			somebodyWaits(t, c.pool, c.schema)
			if len(waits) > 0 {
				t.Error("a fill did not wait for the row")
			}
			in.end(t, true)
			if st := <-waits; st.Level != 3 {
				t.Errorf("%+v; want level 3", st)
			}
			clean(t, c.pool)
		})
	}
}

// TestWaiterDoesNotRewind has a fill wait for a row. The clock of the fill is then older than
// the time in the row, by more than MaxSkew in one case. Neither may rewind the bucket: units
// would leak twice.
func TestWaiterDoesNotRewind(t *testing.T) {
	const wait = 100 * time.Millisecond
	kinds := map[string]func(store.Bucket) store.Op{
		"try":    func(b store.Bucket) store.Op { return op(b, 1, store.IfFits) },
		"fillup": func(b store.Bucket) store.Op { return op(b, 1, store.Clamp) },
		"drain":  func(b store.Bucket) store.Op { return op(b, -1, store.Always) },
		"hold":   func(b store.Bucket) store.Op { return store.Op{Bucket: b, Hold: 1} },
	}
	for _, skew := range []time.Duration{0, wait / 4} {
		for name, kind := range kinds {
			t.Run(fmt.Sprintf("%s, MaxSkew %v", name, skew), func(t *testing.T) {
				log := &records{}
				c := newCharges(t, postgres.Options{MaxSkew: skew, Logger: log.logger()})
				b := store.Limit{Capacity: 1000, LeakRate: 1}.For(secret)
				fill(t, c.s, op(b, 500, store.Clamp))
				tx := c.begin(t, pgx.ReadCommitted)
				fill(t, c.s.With(tx), op(b, 1, store.Clamp))
				waits := make(chan error, 1)
				go func() { _, err := c.s.Fill(context.Background(), kind(b)); waits <- err }()
				somebodyWaits(t, c.pool, c.schema)
				// The waiter has read its clock by now. The row gets a later time.
				time.Sleep(wait)
				held := fill(t, c.s.With(tx), op(b, 1, store.Clamp))
				end(t, tx, true)
				if err := <-waits; err != nil {
					t.Fatal(err)
				}
				at := scalar[time.Time](t, c.pool, "SELECT atime FROM "+table(t, c.schema))
				if at.Before(held.At) {
					t.Errorf("the time went back by %v", held.At.Sub(at))
				}
				if n := log.count("MaxSkew"); n != 0 {
					t.Errorf("a wait was logged as skew %d times", n)
				}
			})
		}
	}
}

// TestWithNothing uses a nil transaction, and one that has ended. Both give an error.
func TestWithNothing(t *testing.T) {
	c := newCharges(t, postgres.Options{})
	for _, none := range []store.Store{c.s.With(nil), c.s.WithSQL(nil)} {
		for _, call := range calls(none, steady.For(secret)) {
			if err := call(t.Context()); !errors.Is(err, store.ErrClosed) && !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("without a transaction: %v", err)
			}
		}
	}
	for _, join := range ways {
		ended := join(t, c, pgx.ReadCommitted)
		ended.end(t, true)
		for name, call := range calls(ended, steady.For(secret)) {
			if name != "prune" {
				wantError(t, call(t.Context()), store.ErrMisconfigured, "closed")
			}
		}
		done, cancel := context.WithCancel(t.Context())
		cancel()
		for name, call := range calls(join(t, c, pgx.ReadCommitted), steady.For(secret)) {
			if name != "prune" {
				plainContext(t, call(done), context.Canceled)
			}
		}
	}
}

// chargeFirst is the code of docs/postgres.md for a block that lasts.
func chargeFirst(ctx context.Context, pool *pgxpool.Pool, buckets *postgres.Store, bucket brim.Bucket,
	insert func(pgx.Tx) error,
) (st brim.State, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		lim := brim.New(buckets.With(tx), nil).WithPenalty(time.Minute)
		if st, err = lim.TryFillup(ctx, bucket, 1); err != nil || !st.Accepted {
			return err // nil after a refusal: the commit keeps the block
		}
		return insert(tx)
	})
	return st, err
}

// A block is part of the transaction that has set it. A rollback loses the block, and a commit
// after the refusal keeps it.
func TestPenaltyWithinTransaction(t *testing.T) {
	leakFree(t)
	c := newCharges(t, postgres.Options{})
	ctx := t.Context()
	bucket := store.Limit{Capacity: 1}.For("client")
	blocked := func() bool {
		states, err := c.s.Read(ctx, bucket)
		if err != nil {
			t.Fatal(err)
		}
		return !states[0].BlockedUntil.IsZero()
	}
	inserted := 0
	insert := func(tx pgx.Tx) error {
		inserted++
		c.insert(t, tx)
		return nil
	}
	if st, err := chargeFirst(ctx, c.pool, c.s, bucket, insert); err != nil || !st.Accepted {
		t.Fatalf("%+v, %v; want room for one unit", st, err)
	}
	tx := c.begin(t, pgx.ReadCommitted)
	st, err := brim.New(c.s.With(tx), nil).WithPenalty(time.Minute).TryFillup(ctx, bucket, 1)
	if err != nil || st.Accepted || st.BlockedUntil.IsZero() {
		t.Errorf("%+v, %v; want a refusal that blocks the bucket", st, err)
	}
	end(t, tx, false)
	if blocked() {
		t.Error("the bucket is blocked; want the block lost with its transaction")
	}
	st, err = chargeFirst(ctx, c.pool, c.s, bucket, insert)
	if err != nil || st.Accepted || !blocked() || inserted != 1 {
		t.Errorf("%+v, %v, %d rows; want a refusal whose block is kept, and one row", st, err, inserted)
	}
	if n := scalar[int](t, c.pool, "SELECT count(*) FROM "+c.schema+".charges"); n != 1 {
		t.Errorf("%d rows in the table; want 1", n)
	}
}

// TestFirstCause calls again in a transaction that has failed. The server then tells no reason, so
// the error names the first one, if it is known.
func TestFirstCause(t *testing.T) {
	pool := pgtest.Pool(t)
	c := &charges{pool: pool, s: over(t, pool, postgres.Options{Schema: "nowhere"})}
	for way, join := range ways {
		t.Run(way, func(t *testing.T) {
			in, other := join(t, c, pgx.ReadCommitted), join(t, c, pgx.ReadCommitted)
			_, err := in.Fill(t.Context(), op(steady.For(secret), 1, store.IfFits))
			wantError(t, err, store.ErrMisconfigured, "42P01")
			_, err = in.Read(t.Context(), steady.For(secret))
			wantError(t, err, store.ErrMisconfigured, "25P02", "42P01", "brim migrate up")
			// The application's own statement has failed: nobody knows why.
			if err := other.exec("SELECT 1/0"); err == nil {
				t.Fatal("no error")
			}
			_, err = other.Read(t.Context(), steady.For(secret))
			wantError(t, err, store.ErrMisconfigured, "25P02", "roll the transaction back")
		})
	}
}
