package postgres

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgrun"
)

// WatchCommits has the connections of a pool notice a commit that has not waited for its
// synchronous standby. Call it on the configuration before the pool is made.
//
// If somebody cancels a statement while its commit waits for the standby, the server reports
// success with a warning, and a fail-over to the standby loses the commit. Over a pool with
// WatchCommits a call then fails with [store.ErrUnknownOutcome]. Over another pool it succeeds: the
// driver shows warnings only to the handler in the configuration of a connection. WatchCommits
// keeps an OnNotice that config has, and calls it too. Pools of package stores have WatchCommits.
//
// [Check] finds a pool without it where the server has a synchronous standby. Servers without one
// need no WatchCommits.
func WatchCommits(config *pgxpool.Config) { pgrun.WatchCommits(&config.ConnConfig.Config) }
