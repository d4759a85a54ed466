package frameworks

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/uptrace/bun"
	"gorm.io/gorm"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/lab/frameworks/notes"
	"github.com/brimgo/brim/postgres"
)

// Notes inserts notes of tenants, each of which has a bucket. A note and its charge commit together
// or not at all. The methods do the same by sqlc, bun and gorm.
type Notes struct {
	Buckets *postgres.Store
	Limit   brim.Limit
}

// Note is a row of the table notes.
type Note struct {
	ID     int64 `bun:",pk,autoincrement"`
	Tenant string
	Body   string
}

// InsertSQLC inserts a note by the code that sqlc generates for database/sql.
func (n *Notes) InsertSQLC(ctx context.Context, db *sql.DB, note Note) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after the commit
	err = notes.New(db).WithTx(tx).InsertNote(ctx, notes.InsertNoteParams{Tenant: note.Tenant, Body: note.Body})
	if err != nil {
		return err
	}
	if err := n.charge(ctx, tx, note); err != nil {
		return err
	}
	return tx.Commit()
}

// InsertBun inserts a note by bun, whose transaction has that of database/sql in a field.
func (n *Notes) InsertBun(ctx context.Context, db *bun.DB, note Note) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&note).Exec(ctx); err != nil {
			return err
		}
		return n.charge(ctx, tx.Tx, note)
	})
}

// InsertGORM inserts a note by gorm, whose statements run in the transaction of database/sql in
// Statement.ConnPool. With gorm's option PrepareStmt it is a *gorm.PreparedStmtTX, and the
// transaction is in its field Tx.
func (n *Notes) InsertGORM(ctx context.Context, db *gorm.DB, note Note) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&note).Error; err != nil {
			return err
		}
		inside, ok := tx.Statement.ConnPool.(*sql.Tx)
		if !ok {
			return fmt.Errorf("gorm runs its statements by %T; want a *sql.Tx", tx.Statement.ConnPool)
		}
		return n.charge(ctx, inside, note)
	})
}

// charge puts the note's bytes into the bucket of its tenant, in the transaction that inserts it.
// It comes last: from the charge to the commit, other callers of the bucket wait.
func (n *Notes) charge(ctx context.Context, tx *sql.Tx, note Note) error {
	lim := brim.New(n.Buckets.WithSQL(tx), nil)
	st, err := lim.TryFillup(ctx, n.Limit.For("tenant:"+note.Tenant), float64(len(note.Body)))
	switch {
	case err != nil:
		return err
	case !st.Accepted:
		return &brim.OverLimitError{State: st} // rolls the note back
	}
	return nil
}
