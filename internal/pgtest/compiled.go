package pgtest

import (
	"context"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Compiled watches the connections of a pool with cfg. The result returns the plans that the server
// has compiled (JIT). The server compiles a plan that it expects to cost a hundredth of the cost from
// which it does so by default, so that small tables show the plans that it would compile over large
// ones. The user must be a superuser, because auto_explain tells the plans.
func Compiled(cfg *pgxpool.Config) func() []string {
	var mu sync.Mutex
	var plans []string
	cfg.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if strings.Contains(n.Message, "\nJIT:") {
			mu.Lock()
			defer mu.Unlock()
			plans = append(plans, n.Message)
		}
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0;
			SET jit_above_cost = 1000; SET client_min_messages = log`)
		return err
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return plans
	}
}
