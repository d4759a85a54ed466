package pgrun

import (
	"context"
	_ "embed" // for the statement
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/store"
)

var (
	//go:embed session.sql
	sessionFile string

	session = pgname.Names{}.Statement("session", sessionFile, nil)
)

// sessionKey is the key of a connection's lock_timeout in the custom data of the connection. A
// connection has one from the time when [vet] has found it fit.
const sessionKey = "brim.session"

// vet finds out, at the first use of a connection, whether decisions are right on it. The error is
// [*Unfit], or that of the question, which changes nothing.
//
// vet sends one statement for each connection. Through a pooler in transaction mode it asks one of
// the server's sessions that the connection will have, and settings of the role or of the database
// count for all of them.
func vet(ctx context.Context, q Queryer, conn *pgx.Conn) error {
	data := conn.PgConn().CustomData()
	if _, known := data[sessionKey]; known {
		return nil
	}
	s := settings{user: conn.Config().User}
	rows, err := q.Query(ctx, session)
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&s.server, &s.client, &s.schemas, &s.lockTimeout}, func() error { return nil })
	}
	if err != nil {
		return unsent{err}
	}
	if err := s.judge(); err != nil {
		return err
	}
	data[sessionKey] = time.Duration(s.lockTimeout) * time.Millisecond
	return nil
}

// ownWait returns the lock_timeout of the session of a connection that vet has found fit. By it an
// operator bounds all waits; 0 means none.
func ownWait(conn *pgx.Conn) time.Duration {
	own, _ := conn.PgConn().CustomData()[sessionKey].(time.Duration)
	return own
}

// vetted is vet for a connection of the pool. It closes an unfit one, so that a setting that
// somebody mends counts for the next call. It is nil if the connection breaks, since the caller
// then finds it closed.
func vetted(ctx context.Context, conn *pgxpool.Conn) error {
	err := vet(ctx, conn, conn.Conn())
	if conn.Conn().IsClosed() {
		return nil
	}
	if errors.As(err, new(*Unfit)) {
		_ = conn.Conn().Close(ctx)
	}
	return err
}

// settings are those settings of a session on which decisions depend.
type settings struct {
	user           string
	server, client string   // encodings
	schemas        []string // that the server searches, in their order
	lockTimeout    int64    // in milliseconds
}

// Unfit is the error of a connection, or a server, on which decisions would be wrong. [Check.Unfit]
// makes a finding of it.
type Unfit struct{ Subject, Problem, Remedy string }

func (e *Unfit) Error() string {
	return fmt.Sprintf("%v: %s: %s; %s", store.ErrMisconfigured, e.Subject, e.Problem, e.Remedy)
}

// Unwrap returns [store.ErrMisconfigured].
func (e *Unfit) Unwrap() error { return store.ErrMisconfigured }

// judge returns an [*Unfit] if decisions would be wrong.
//
// Text must be UTF-8 in the database and on the way to it. The server converts a key from another
// client_encoding: one name then has a bucket for each encoding, and each bucket has the whole
// limit. A database of another encoding cannot hold every key.
//
// The operators and functions of a schema before pg_catalog would decide. The server looks for none
// among temporary objects.
func (s *settings) judge() error {
	alter := func(set string) string {
		return fmt.Sprintf("remove it from the connection string, or `ALTER ROLE %s SET %s`, and connect anew", pgname.Quote(s.user), set)
	}
	if s.server != "UTF8" {
		return &Unfit{
			"server_encoding", "the database has " + s.server + ", which cannot hold every key",
			"use a database that was made with ENCODING 'UTF8'",
		}
	}
	if s.client != "UTF8" && s.client != "UNICODE" { // the old name of the same
		return &Unfit{
			"client_encoding", "it is " + s.client + ": the server would take keys for other characters, and one name would have several buckets",
			alter("client_encoding = UTF8"),
		}
	}
	for _, schema := range s.schemas {
		if schema == "pg_catalog" {
			break
		}
		if !strings.HasPrefix(schema, "pg_temp_") {
			return &Unfit{
				"search_path", fmt.Sprintf("it lists %q before pg_catalog, whose operators and functions would decide", schema),
				alter(`search_path = "$user", public`),
			}
		}
	}
	return nil
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
