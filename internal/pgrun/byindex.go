package pgrun

import (
	"context"
	_ "embed" // for the statements

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgname"
)

var (
	//go:embed by_index.sql
	byIndexFile string
	//go:embed by_index_keep.sql
	keepFile string
	//go:embed by_index_back.sql
	backFile string

	byIndex = pgname.Names{}.Statement("by_index", byIndexFile, nil)
	keep    = pgname.Names{}.Statement("by_index_keep", keepFile, nil)
	back    = pgname.Names{}.Statement("by_index_back", backFile, nil)
)

// QueueByIndex has the server plan the statements that follow in the transaction without plans that
// read a whole table, and run the plans without compiling them.
func QueueByIndex(b *pgx.Batch) { b.Queue(byIndex) }

// WrapByIndex does the same for the statements of a batch in a transaction that belongs to the
// application, whose own settings come back behind them.
func WrapByIndex(b *pgx.Batch) *pgx.Batch {
	wrapped := &pgx.Batch{}
	wrapped.Queue(keep)
	wrapped.QueuedQueries = append(wrapped.QueuedQueries, b.QueuedQueries...)
	wrapped.Queue(back)
	return wrapped
}

// QueryByIndex is [Runner.Query] for a statement that the server must not plan to answer by
// reading a whole table. The setting goes out with the statement.
func (r *Runner) QueryByIndex(
	ctx context.Context, q Queryer, sql string, args []any, each func(pgx.Rows) error,
) (n int64, err error) {
	b := &pgx.Batch{}
	application := ofApplication(q)
	if !application {
		QueueByIndex(b)
	}
	b.Queue(sql, args...).Query(func(rows pgx.Rows) (err error) {
		n, err = readAll(ctx, rows, each)
		return err
	})
	if application {
		return n, q.SendBatch(ctx, WrapByIndex(b)).Close()
	}
	return n, r.SendTogether(ctx, q, b)
}
