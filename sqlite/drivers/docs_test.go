//go:build !mattn && !ncruces

package drivers

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/sqlite"
)

// The programs of docs/sqlite.md.
var perUser = brim.Over(1, time.Hour)

func open(ctx context.Context, use func(db *sql.DB, limits *sqlite.Store) error) error {
	db, err := sql.Open("sqlite", "file:app.db?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)&_pragma=synchronous(FULL)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	limits, err := sqlite.New(ctx, db, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer limits.Close()
	return use(db, limits)
}

func order(ctx context.Context, db *sql.DB, limits *sqlite.Store, user string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	st, err := brim.New(limits.With(tx), nil).TryFillup(ctx, perUser.For(user), 1)
	if err != nil {
		return err
	}
	if !st.Accepted { // a refusal is no error of the call
		return &brim.OverLimitError{State: st}
	}
	if _, err := tx.ExecContext(context.WithoutCancel(ctx), `INSERT INTO orders (user) VALUES (?)`, user); err != nil {
		return err
	}
	return tx.Commit()
}

// TestDocs makes two orders of one user, of which the second does not fit.
func TestDocs(t *testing.T) {
	t.Chdir(t.TempDir())
	if found, err := filepath.Glob("*"); err != nil || len(found) > 0 {
		t.Fatal(found, err)
	}
	err := open(t.Context(), func(db *sql.DB, limits *sqlite.Store) error {
		if _, err := db.Exec(`CREATE TABLE orders (user TEXT)`); err != nil {
			return err
		}
		if err := order(t.Context(), db, limits, "u"); err != nil {
			return err
		}
		if err := order(t.Context(), db, limits, "u"); !errors.As(err, new(*brim.OverLimitError)) {
			t.Errorf("the second order: %v; want an OverLimitError", err)
		}
		var n int
		if err := db.QueryRow(`SELECT count(*) FROM orders`).Scan(&n); err != nil || n != 1 {
			t.Errorf("%d orders, %v; want 1", n, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
