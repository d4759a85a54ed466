package ui_test

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/ui"
)

// The page of a program that decides and spends in PostgreSQL tells the findings of both.
func ExampleJoinChecks() {
	pool, err := pgxpool.New(context.Background(), "postgres:///app")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	check := ui.JoinChecks(
		func(ctx context.Context) ([]store.Finding, error) { return postgres.Check(ctx, pool, nil) },
		func(ctx context.Context) ([]store.Finding, error) { return pgledger.Check(ctx, pool, nil) },
	)
	_ = ui.Options{Check: check}
}
