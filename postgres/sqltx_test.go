package postgres_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

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
