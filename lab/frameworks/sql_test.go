package frameworks

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/lab/frameworks/notes"
	"github.com/brimgo/brim/lab/internal/pgstore"
	"github.com/brimgo/brim/postgres"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestSQL inserts notes by sqlc, bun and gorm until the tenant's bucket is full. A refusal, and a
// note that the table does not take, leave neither a row nor a charge.
func TestSQL(t *testing.T) {
	ctx := t.Context()
	pool, buckets := pgstore.New(t, postgres.Options{})
	if _, err := pool.Exec(ctx, notes.Schema); err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	bunDB := bun.NewDB(db, pgdialect.New())
	gormDB, err := gorm.Open(gormpostgres.New(gormpostgres.Config{Conn: db}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	n := &Notes{Buckets: buckets, Limit: brim.Limit{Capacity: 10}}
	for name, insert := range map[string]func(ctx context.Context, note Note) error{
		"sqlc": func(ctx context.Context, note Note) error { return n.InsertSQLC(ctx, db, note) },
		"bun":  func(ctx context.Context, note Note) error { return n.InsertBun(ctx, bunDB, note) },
		"gorm": func(ctx context.Context, note Note) error { return n.InsertGORM(ctx, gormDB, note) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []struct {
				body  string
				fails bool
				notes int64
				level float64
			}{
				{"four", false, 1, 4},
				{"\x00", true, 1, 4}, // PostgreSQL keeps no NUL
				{"sixsix", false, 2, 10},
				{"1", true, 2, 10},
			} {
				err := insert(ctx, Note{Tenant: name, Body: c.body})
				if (err != nil) != c.fails || c.body == "1" && !errors.Is(err, brim.ErrOverLimit) {
					t.Errorf("a note %q: %v", c.body, err)
				}
				count, err := notes.New(db).CountNotes(ctx, name)
				if err != nil || count != c.notes {
					t.Errorf("after a note %q: %d notes, %v; want %d", c.body, count, err, c.notes)
				}
				st, err := brim.New(buckets, nil).StateOf(ctx, "tenant:"+name)
				if err != nil || st.Level != c.level {
					t.Errorf("after a note %q: level %v, %v; want %v", c.body, st.Level, err, c.level)
				}
			}
		})
	}
}
