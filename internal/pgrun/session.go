package pgrun

import (
	"context"
	_ "embed" // for the statement
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgname"
)

var (
	//go:embed session.sql
	sessionFile string

	session = pgname.Names{}.Statement("session", sessionFile, nil)
)

// waitKey is the key of a connection's lock_timeout in the custom data of the connection.
const waitKey = "brim.lock_timeout"

// ownWait returns the lock_timeout of a connection's session, by which an operator bounds all waits,
// or 0 if it has none.
//
// ownWait asks the server once for each connection. A statement that asked by itself would take
// longer, and ask once more while it holds a row for which it has waited. ownWait fails silently,
// since the statement that follows reports the error.
func ownWait(ctx context.Context, conn *pgx.Conn) time.Duration {
	data := conn.PgConn().CustomData()
	if own, known := data[waitKey].(time.Duration); known {
		return own
	}
	var ms int64
	if conn.QueryRow(ctx, session).Scan(&ms) != nil {
		return 0
	}
	own := time.Duration(ms) * time.Millisecond
	data[waitKey] = own
	return own
}

// lockTimeoutOf returns the argument of the fragment lock_timeout() for a statement that may wait
// for so long, but not for longer than the session's own lock_timeout.
func lockTimeoutOf(wait, own time.Duration) *string {
	if own > 0 {
		wait = min(wait, own)
	}
	text := milliseconds(wait)
	return &text
}

// milliseconds formats a lock_timeout. Zero would mean none.
func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}
