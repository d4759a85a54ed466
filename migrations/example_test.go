package migrations_test

import (
	"context"
	"fmt"
	"io/fs"
	"log"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/migrations"
)

// Every process may call Up when it starts.
func ExampleUp() {
	pool, err := pgxpool.New(context.Background(), os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := migrations.Up(context.Background(), pool, &migrations.Options{Schema: "limits"}); err != nil {
		log.Fatal(err)
	}
}

// Another migration tool takes the files.
func ExampleFiles() {
	files, err := migrations.Files(nil)
	if err != nil {
		log.Fatal(err)
	}
	names, err := fs.Glob(files, "*.up.sql")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(names[0], names[1])
	// Output:
	// 0001_buckets.up.sql 0002_ledger.up.sql
}
