package postgres_test

import (
	"context"
	"errors"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
)

// Any number of processes share the buckets.
func ExampleNew() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool, nil); err != nil { // does nothing if the tables are there
		log.Fatal(err)
	}
	db, err := postgres.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close() // the pool stays open

	if err := db.Ping(ctx); err != nil { // a missing right shows here
		log.Fatal(err)
	}

	st, err := brim.New(db, nil).TryFillup(ctx, brim.Over(100, time.Minute).For("tenant:42"), 1)
	switch {
	case err != nil:
		log.Print(err) // nothing was decided
	case !st.Accepted:
		log.Printf("come back in %v", st.RetryAfter)
	}
}

// A charge commits, or rolls back, with the rows that it pays for.
func ExampleStore_With() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	db, err := postgres.New(pool, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	errOver := errors.New("over the limit")
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO letters (recipient) VALUES ($1)`, "alice"); err != nil {
			return err
		}
		st, err := brim.New(db.With(tx), nil).TryFillup(ctx, brim.Over(3, 24*time.Hour).For("mail:alice"), 1)
		if err == nil && !st.Accepted {
			err = errOver // and the letter is not there
		}
		return err
	})
	if err != nil && !errors.Is(err, errOver) {
		log.Fatal(err)
	}
}
