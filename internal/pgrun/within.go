package pgrun

import (
	"cmp"
	"context"
	"fmt"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/brimgo/brim/store"
)

// Within calls f, which sends statements in tx: a transaction of [Runner.Transact], or one that
// belongs to the application, as a [pgx.Tx] or the Queryer of [OverSQL].
// Nothing is applied before the application commits, so an error never says ErrUnknownOutcome.
//
// A call that its bound cuts off ends the transaction. So the bound in a transaction of the
// application is half as long again as that of other calls: where a call outside of the transaction
// waits for it and it waits in turn, the call outside gives up first. Transact runs its transaction
// again.
func (r *Runner) Within(ctx context.Context, tx Queryer, op string, f func(context.Context) error) error {
	err := r.Ready(ctx)
	switch {
	case tx == nil:
		err = store.ErrClosed
	case err == nil:
		timeout := r.Timeout
		if _, own := tx.(ownTx); !own {
			timeout += timeout / 2
		}
		bound, release := bounded(ctx, timeout)
		defer release()
		if tx, ok := tx.(pgx.Tx); ok && tx.Conn() != nil {
			err = vet(bound, tx, tx.Conn())
		}
		if err == nil {
			err = cmp.Or(r.measure(bound, tx), bound.Err())
		}
		if err == nil {
			err = f(bound)
		}
		if conn, _ := identity(tx); conn != nil {
			err = OnStandby(conn, err)
		}
		err = firstCause(tx, r.looked(ctx, err))
	}
	return r.Wrap(op, err)
}

// causeKey is the key, in the custom data of a connection, of the first error of a transaction.
const causeKey = "brim.cause"

// cause is the error by which a transaction of the application has failed.
type cause struct {
	tx  any // its identity: a connection has one transaction after another
	err error
}

// firstCause remembers an error that has failed the transaction. After it, the server refuses every
// statement without a reason; firstCause returns the remembered error in the place of such a
// refusal.
func firstCause(tx Queryer, err error) error {
	if err == nil {
		return nil
	}
	conn, id := identity(tx)
	if conn == nil {
		return err
	}
	first, known := conn.CustomData()[causeKey].(cause)
	switch {
	case !IsCode(err, "25P02") && conn.TxStatus() == 'E':
		conn.CustomData()[causeKey] = cause{id, err}
	case known && IsCode(err, "25P02") && reflect.ValueOf(first.tx).Comparable() && first.tx == id:
		return fmt.Errorf("%w; since then the server refuses the statements of the transaction (SQLSTATE 25P02)", first.err)
	}
	return err
}

// identity returns the connection of a transaction of the application, if it is known, and a value
// that no other transaction has.
func identity(tx Queryer) (*pgconn.PgConn, any) {
	switch t := tx.(type) {
	case pgx.Tx:
		if c := t.Conn(); c != nil {
			return c.PgConn(), t
		}
	case *sqlTx:
		return t.driver.conn, t.tx
	}
	return nil, nil
}
