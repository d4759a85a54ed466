package main

import (
	"context"
	"database/sql"
	"time"

	"github.com/brimgo/brim"
)

// makeTable makes the table of rows in SQLite. The times are in microseconds.
func (w *writer) makeTable(ctx context.Context) error {
	_, err := w.db.DB.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS events (
		id INTEGER PRIMARY KEY, tenant TEXT NOT NULL, body TEXT NOT NULL, charged INTEGER NOT NULL) STRICT`)
	return err
}

// inSQLite puts a piece of a batch in, with its charge. The charge comes first: it takes the write
// lock, and nothing that the transaction has read before can be out of date.
func (w *writer) inSQLite(ctx context.Context, batch []string, least int) (st brim.State, err error) {
	tx, err := w.db.DB.BeginTx(ctx, nil)
	if err != nil {
		return st, err
	}
	defer func() { _ = tx.Rollback() }()
	st, err = brim.New(w.db.SQLite.With(tx), nil).TakeUpTo(ctx, w.bucket, float64(min(least, len(batch))), float64(len(batch)))
	if err != nil || !st.Accepted {
		return st, err
	}
	if err := insert(ctx, tx, w.tenant, batch[:int(st.Taken)], st.At); err != nil {
		return st, err
	}
	return st, tx.Commit()
}

// insertAlone puts rows in that were charged before.
func (w *writer) insertAlone(ctx context.Context, batch []string, charged time.Time) error {
	tx, err := w.db.DB.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := insert(ctx, tx, w.tenant, batch, charged); err != nil {
		return err
	}
	return tx.Commit()
}

// insert puts rows in, with the time at which the limit let them in. Its statements do not end with
// ctx: SQLite may roll back when it interrupts a write, and later statements would commit by
// themselves.
func insert(ctx context.Context, tx *sql.Tx, tenant string, batch []string, charged time.Time) error {
	ctx = context.WithoutCancel(ctx)
	row, err := tx.PrepareContext(ctx, `INSERT INTO events (tenant, body, charged) VALUES (?, ?, ?)`)
	if err != nil {
		return err
	}
	defer func() { _ = row.Close() }()
	for _, body := range batch {
		if _, err := row.ExecContext(ctx, tenant, body, charged.UnixMicro()); err != nil {
			return err
		}
	}
	return nil
}
