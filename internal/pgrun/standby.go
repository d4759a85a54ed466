package pgrun

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// Keys in the custom data of a connection. Only connections that [WatchCommits] has configured have
// them.
const (
	warnedKey   = "brim.warned"   // the server has sent a notice
	unsyncedKey = "brim.unsynced" // a commit has not waited for its synchronous standby
)

// WatchCommits has the connections of a configuration remember a commit that has not waited for its
// synchronous standby. The server ends such a wait when somebody cancels the statement. The commit
// then succeeds with a warning, and a fail-over to the standby loses it.
func WatchCommits(config *pgconn.Config) {
	next := config.OnNotice
	config.OnNotice = func(conn *pgconn.PgConn, n *pgconn.Notice) {
		conn.CustomData()[warnedKey] = true
		if n.Routine == "SyncRepWaitForLSN" { // the warning has no code of its own, and its text is translated
			conn.CustomData()[unsyncedKey] = true
		}
		if next != nil {
			next(conn, n)
		}
	}
}

// Warned reports whether the connection has noticed a warning of the server since the last call.
func Warned(conn *pgconn.PgConn) bool { return take(conn, warnedKey) }

func take(conn *pgconn.PgConn, key string) bool {
	_, has := conn.CustomData()[key]
	delete(conn.CustomData(), key)
	return has
}

var errUnsynced = errors.New("the server has committed, but the wait for its synchronous standby was cancelled, " +
	"so a fail-over can lose the commit")
