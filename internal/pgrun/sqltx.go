package pgrun

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// OverSQL returns a Queryer over a transaction of database/sql, or nil if tx is nil. The driver
// must be pgx's, because the statements have arguments that other drivers do not know, such as
// arrays. The statements of a batch go out one after another.
func OverSQL(tx *sql.Tx) Queryer {
	if tx == nil {
		return nil
	}
	return &sqlTx{tx: tx}
}

// ofApplication reports whether q is a transaction that belongs to the application, whose settings
// have to come back.
func ofApplication(q Queryer) bool {
	switch q.(type) {
	case pgx.Tx, *sqlTx:
		return true
	}
	return false
}

// sqlTx is a Queryer over a transaction of database/sql.
type sqlTx struct {
	tx     *sql.Tx
	driver isPgx
}

// isPgx, as the first argument of a statement, finds out whether pgx sends the statement, without a
// statement of its own: pgx calls RewriteQuery. Other drivers have no such argument. For them,
// package sql asks for the Value, before anything is sent.
type isPgx struct {
	known bool
	conn  *pgconn.PgConn
}

// RewriteQuery changes nothing, and fails on a connection that is not fit. It implements
// [pgx.QueryRewriter]: package sql tells the connection of a transaction nowhere else.
func (p *isPgx) RewriteQuery(ctx context.Context, c *pgx.Conn, sql string, args []any) (string, []any, error) {
	if err := vet(ctx, c, c); err != nil {
		return "", nil, err
	}
	p.known, p.conn = true, c.PgConn()
	return sql, args, nil
}

var errDriver = fmt.Errorf("%w: the transaction is not one of pgx's driver for database/sql; open the database "+
	`by stdlib.OpenDBFromPool, or by sql.Open("pgx", url), of github.com/jackc/pgx/v5/stdlib`, errors.ErrUnsupported)

// Value implements [driver.Valuer].
func (*isPgx) Value() (driver.Value, error) { return nil, errDriver }

func (t *sqlTx) Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error) {
	if !t.driver.known {
		args = append([]any{&t.driver}, args...)
	}
	rows, err := t.tx.QueryContext(ctx, statement, args...) //nolint:rowserrcheck // sqlRows.Err
	switch {
	case errors.Is(err, errDriver):
		err = errDriver // without the words of package sql
	case errors.Is(err, sql.ErrTxDone):
		err = fmt.Errorf("%w: %w", pgx.ErrTxClosed, err)
	case err == nil && !t.driver.known: // a driver that takes any argument
		err = errors.Join(errDriver, rows.Close()) //nolint:sqlclosecheck // sqlRows.Close closes others
	}
	return &sqlRows{rows: rows, err: err}, err
}

func (t *sqlTx) Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error) {
	rows, err := t.Query(ctx, statement, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return pgconn.CommandTag{}, rows.Err()
}

func (t *sqlTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	return &sqlBatch{ctx: ctx, tx: t, next: b.QueuedQueries}
}

// sqlBatch sends the next statement of a batch when its result is asked for, or in Close.
type sqlBatch struct {
	pgx.BatchResults // nil: for the methods that nobody calls, also those of a later pgx

	ctx  context.Context
	tx   *sqlTx
	next []*pgx.QueuedQuery
}

func (b *sqlBatch) Query() (pgx.Rows, error) {
	q := b.next[0]
	b.next = b.next[1:]
	return b.tx.Query(b.ctx, q.SQL, q.Arguments...)
}

func (b *sqlBatch) QueryRow() pgx.Row {
	rows, _ := b.Query() // its error is that of the rows as well
	return sqlRow{rows}
}

func (b *sqlBatch) Exec() (pgconn.CommandTag, error) {
	q := b.next[0]
	b.next = b.next[1:]
	return b.tx.Exec(b.ctx, q.SQL, q.Arguments...)
}

// Close sends the statements that are left, up to the first that fails.
func (b *sqlBatch) Close() error {
	for len(b.next) > 0 {
		var err error
		if read := b.next[0].Fn; read != nil {
			err = read(b)
		} else {
			_, err = b.Exec()
		}
		if err != nil {
			b.next = nil
			return err
		}
	}
	return nil
}

// sqlRows are rows of package sql in the form of pgx. Their command tag tells nothing.
type sqlRows struct {
	pgx.Rows // nil: for the methods that nobody calls, also those of a later pgx

	rows *sql.Rows // nil after an error
	err  error     // of the statement
}

func (r *sqlRows) Next() bool                        { return r.err == nil && r.rows.Next() }
func (r *sqlRows) Scan(dest ...any) error            { return r.rows.Scan(dest...) }
func (r *sqlRows) CommandTag() (t pgconn.CommandTag) { return t }

// RawValues returns texts. Err tells an error.
func (r *sqlRows) RawValues() [][]byte {
	columns, err := r.rows.Columns()
	raw, dest, values := make([]sql.RawBytes, len(columns)), make([]any, len(columns)), make([][]byte, len(columns))
	for i := range raw {
		dest[i] = &raw[i]
	}
	r.err = cmp.Or(err, r.rows.Scan(dest...))
	for i := range raw {
		values[i] = raw[i]
	}
	return values
}

func (r *sqlRows) Err() error {
	if r.err == nil {
		r.err = r.rows.Err()
	}
	return r.err
}

func (r *sqlRows) Close() {
	if r.rows != nil {
		_ = r.rows.Close() // Err tells an error of the driver
	}
}

// sqlRow is the first of some rows.
type sqlRow struct{ rows pgx.Rows }

func (r sqlRow) Scan(dest ...any) error {
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
