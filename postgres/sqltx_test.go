package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// TestWithSQLDecidesAsWith makes the same random calls in a transaction of pgx and in one of
// database/sql, over two tables with one clock. All answers must be equal, to the last bit.
func TestWithSQLDecidesAsWith(t *testing.T) {
	for _, c := range []struct {
		name, settings string
		parts          int
	}{
		{name: "defaults"},
		{name: "exec mode", settings: "default_query_exec_mode=exec"},
		{name: "partitioned", parts: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			clock := newHandClock()
			joint := func(way string) *joined {
				url := pgtest.URL(t)
				if c.settings != "" {
					url = tune(url, c.settings)
				}
				pool := poolAt(t, url)
				schema := migrated(t)
				if c.parts > 0 {
					partition(t, pool, schema, c.parts)
				}
				s := over(t, pool, postgres.Options{Schema: schema, Clock: clock.now})
				return ways[way](t, &charges{pool: pool, schema: schema, s: s}, pgx.ReadCommitted)
			}
			with, withSQL := joint("With"), joint("WithSQL")
			rng := rand.New(rand.NewPCG(3, 4))
			for i := range seed.Attempts(150, 10_000) {
				clock.advance(time.Duration(rng.IntN(1000)) * time.Millisecond)
				describe, call := randomCall(rng)
				want, err := call(t.Context(), with)
				got, errSQL := call(t.Context(), withSQL)
				if !reflect.DeepEqual(got, want) || (err == nil) != (errSQL == nil) || err != nil && err.Error() != errSQL.Error() {
					t.Fatalf("call %d, %s: With answers\n%+v, %v; WithSQL\n%+v, %v", i, describe, want, err, got, errSQL)
				}
			}
			with.end(t, true)
			withSQL.end(t, true)
		})
	}
}

// randomCall returns a call of a store, and its description. Errors of single transactions are
// parts of the answer.
func randomCall(rng *rand.Rand) (describe string, call func(context.Context, store.Store) (any, error)) {
	keys := []string{"a", "b", "c", "d"}
	randomOp := func() store.Op {
		o := op(store.Limit{Capacity: 10, LeakRate: float64(rng.IntN(3))}.For(keys[rng.IntN(len(keys))]), 5*rng.Float64(), store.IfFits)
		switch rng.IntN(12) {
		case 0:
			o.Mode = store.Clamp
		case 1:
			o.Mode = store.Always
		case 2:
			o.Mode, o.Amount = store.Always, -o.Amount
		case 3:
			o.Hold, o.Amount = o.Amount, 0
		case 4:
			o.Mode, o.Hold, o.Amount = store.Always, -o.Amount, 0 // mostly ErrNotHeld
		case 5:
			o.BlockFor = time.Second
		case 6:
			o.Ceiling = 5
		case 7:
			o.Mode = store.Ask
		case 8:
			o.Mode, o.Amount, o.BlockFor = store.Block, 0, time.Second
		case 9:
			o.Mode, o.Amount, o.Limit = store.Unblock, 0, store.Limit{}
		}
		return o
	}
	switch rng.IntN(8) {
	case 0, 1, 2, 3:
		o := randomOp()
		return fmt.Sprintf("fill %+v", o), func(ctx context.Context, s store.Store) (any, error) { return s.Fill(ctx, o) }
	case 4:
		txns := []store.Txn{{randomOp()}, {randomOp()}}
		for _, key := range keys[:2] {
			o := randomOp()
			for o.Key != key || o.Mode == store.Block || o.Mode == store.Unblock || o.Mode == store.Ask {
				o = randomOp()
			}
			txns = append(txns, store.Txn{o})
		}
		return fmt.Sprintf("apply %+v", txns), func(ctx context.Context, s store.Store) (any, error) {
			res, err := s.Apply(ctx, txns...)
			var texts []string // errors of two stores are not the same values
			for i := range res {
				texts = append(texts, fmt.Sprint(res[i].Err))
				res[i].Err = nil
			}
			return []any{res, texts}, err
		}
	case 5:
		return "read", func(ctx context.Context, s store.Store) (any, error) {
			return s.Read(ctx, store.Bucket{Key: "a"}, store.Limit{Capacity: 7, LeakRate: 1}.For("b"), store.Bucket{Key: "none"})
		}
	case 6:
		return "visit", func(ctx context.Context, s store.Store) (any, error) {
			var entries []store.Entry
			err := s.Visit(ctx, "", func(e store.Entry) bool { entries = append(entries, e); return len(entries) < 3 })
			return entries, err
		}
	}
	key := keys[rng.IntN(len(keys))]
	return "delete " + key, func(ctx context.Context, s store.Store) (any, error) { return nil, s.Delete(ctx, key) }
}

// foreign is a driver that is not pgx. It notes the statements that it gets.
type foreign struct {
	statements []string
	any        bool // it takes arguments of every type
}

func (f *foreign) Connect(context.Context) (driver.Conn, error) { return f, nil }
func (f *foreign) Driver() driver.Driver                        { return nil }
func (f *foreign) Begin() (driver.Tx, error)                    { return f, nil }
func (f *foreign) Commit() error                                { return nil }
func (f *foreign) Rollback() error                              { return nil }
func (f *foreign) Close() error                                 { return nil }
func (f *foreign) Columns() []string                            { return nil }
func (f *foreign) Next([]driver.Value) error                    { return errors.New("no rows") }

func (f *foreign) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not prepared") }

func (f *foreign) CheckNamedValue(*driver.NamedValue) error {
	if f.any {
		return nil
	}
	return driver.ErrSkip
}

func (f *foreign) QueryContext(_ context.Context, statement string, _ []driver.NamedValue) (driver.Rows, error) {
	f.statements = append(f.statements, statement)
	return f, nil
}

// TestWithSQLOfAnotherDriver sees that each call in a transaction of another driver says so. A
// driver that checks its arguments gets no statement, so its transaction can go on.
func TestWithSQLOfAnotherDriver(t *testing.T) {
	s := open(t, postgres.Options{})
	for _, f := range []*foreign{{}, {any: true}} {
		db := sql.OpenDB(f)
		defer db.Close()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, call := range calls(s.WithSQL(tx), steady.For(secret)) {
			if name != "prune" {
				wantError(t, call(t.Context()), errors.ErrUnsupported, "pgx's driver", "stdlib.OpenDBFromPool")
			}
		}
		if n := len(f.statements); (n > 0) != f.any {
			t.Errorf("the driver got %q", f.statements)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	}
}

// statements counts the statements of a pool.
type statements struct{ n atomic.Int64 }

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	s.n.Add(1)
	return ctx
}

func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestWithSQLInOneStatement sees that a TryFillup in a transaction of database/sql is one
// statement, once the store knows the table, and that finding out about the driver takes none.
func TestWithSQLInOneStatement(t *testing.T) {
	sent := &statements{}
	pool := tracedPool(t, sent)
	schema := migrated(t)
	c := &charges{pool: pool, schema: schema, s: over(t, pool, postgres.Options{Schema: schema})}
	b := store.Limit{Capacity: 100}.For("k")
	fill(t, c.s, op(b, 1, store.IfFits))
	tx := c.beginSQL(t, pgx.ReadCommitted)
	before := sent.n.Load()
	const fills = 10
	for i := range fills {
		if st := fill(t, c.s.WithSQL(tx), op(b, 1, store.IfFits)); st.Level != float64(2+i) {
			t.Errorf("%+v; want level %d", st, 2+i)
		}
	}
	// Once a second the store asks for the size of the table, too.
	if n := sent.n.Load() - before; n < fills || n > fills+2 {
		t.Errorf("%d statements for %d fills", n, fills)
	}
	before = sent.n.Load()
	fill(t, c.s.WithSQL(tx), store.Op{Bucket: b, Hold: 1})
	if n := sent.n.Load() - before; n < 3 || n > 8 {
		t.Errorf("%d statements for a hold", n)
	}
}
