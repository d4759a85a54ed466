package pgrun_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/internal/pgtest"
)

// TestSettingsComeBack tests that an application's settings for the planner hold again behind the
// statements that brim sends in the application's transaction.
func TestSettingsComeBack(t *testing.T) {
	ctx := context.Background()
	tx, err := pgtest.Pool(t).Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	type settings struct{ seqscan, bitmapscan, jit string }
	const show = "SELECT current_setting('enable_seqscan'), current_setting('enable_bitmapscan'), current_setting('jit')"
	for _, own := range []settings{
		{"on", "on", "on"}, {"off", "on", "on"}, {"on", "off", "on"}, {"on", "on", "off"}, {"off", "off", "off"},
	} {
		if _, err := tx.Exec(ctx, "SELECT set_config('enable_seqscan', $1, true), set_config('enable_bitmapscan', $2, true), set_config('jit', $3, true)",
			own.seqscan, own.bitmapscan, own.jit); err != nil {
			t.Fatal(err)
		}
		var during, after settings
		b := &pgx.Batch{}
		b.Queue(show).QueryRow(func(row pgx.Row) error { return row.Scan(&during.seqscan, &during.bitmapscan, &during.jit) })
		if err := tx.SendBatch(ctx, pgrun.WrapByIndex(b)).Close(); err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRow(ctx, show).Scan(&after.seqscan, &after.bitmapscan, &after.jit); err != nil {
			t.Fatal(err)
		}
		if off := (settings{"off", "off", "off"}); during != off || after != own {
			t.Errorf("of an application with %v the settings are %v during the statements and %v behind them", own, during, after)
		}
	}
}
