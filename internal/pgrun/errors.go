package pgrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/brimgo/brim/store"
)

// verdict is the meaning of a driver's error for the statement that was sent.
type verdict uint8

const (
	refused    verdict = iota // the server answered no: nothing was applied
	retry                     // nothing was applied, and the same statement may succeed
	serialized                // as retry, because the session's isolation is not READ COMMITTED
	readOnly                  // nothing was applied, and this connection will never apply anything
	down                      // nothing was applied, and another statement would fare no better
	stalled                   // nothing was applied: a row was held for longer than lock_timeout
	cancelled                 // as refused, but perhaps by mistake
	unknown                   // the server may have applied it
)

// answer is the meaning of an error of the server.
type answer struct {
	verdict verdict
	class   error  // for callers; where the outcome is unknown, only for an attempt to connect
	advice  string // the way out, or ""
}

// The classes of answers. An error that leaves nothing applied is unavailable only if it is known
// to pass by itself; see [store.ErrMisconfigured].
var (
	passes = store.ErrUnavailable
	ours   = store.ErrMisconfigured
)

const (
	migrate  = `run "brim migrate up", or migrations.Up, first`
	prepared = "a pooler has given the connection another session: put default_query_exec_mode=exec into the " +
		"connection string, or set max_prepared_statements above 0 in PgBouncer 1.21 or newer"
	stopping = "the server is stopping or starting"
	login    = "check the user and the password"
)

// answers are the codes of appendix A of PostgreSQL's manual that have a meaning of their own: by
// SQLSTATE, or by its first characters. docs/errors.md has the same table.
var answers = map[string]answer{
	"08":    {unknown, passes, ""},
	"08P01": {unknown, ours, ""}, // of a pooler, with which it means anything; see reading
	"22021": {refused, store.ErrInvalidKey, "the server accepts no such text"},
	"22P05": {refused, store.ErrInvalidKey, "the server accepts no such text"},
	"23505": {refused, passes, "another transaction has just used the same ID, or set rules of the same budget"},
	"25006": {readOnly, ours, "decisions are made on the primary; connect to it, for instance with target_session_attrs=read-write, " +
		"and with default_transaction_read_only off"},
	"25P02": {refused, ours, "a statement before it in the same transaction has failed; roll the transaction back"},
	"25P03": {retry, passes, "the client was stopped for longer than Options.StatementTimeout while it held rows"},
	"25P04": {retry, passes, "the server's transaction_timeout passed"},
	"26000": {refused, ours, prepared},
	"28":    {down, ours, login},
	"3D":    {down, ours, "check the name of the database"},
	"3F":    {down, ours, migrate},
	"40001": {serialized, passes, "run the whole transaction again"},
	"40P01": {retry, passes, ""},
	"42":    {down, ours, ""},
	"42501": {down, ours, "grant SELECT on the table, the other rights that \"brim migrate sql\" lists for it, such as INSERT, and USAGE on its schema"},
	"42703": {down, ours, migrate},
	"42P01": {down, ours, migrate},
	"42P05": {down, ours, prepared},
	"53":    {down, passes, ""},
	"53100": {down, passes, "make room on the disk of the server"},
	"53300": {down, passes, "the server has no connection left; make the pool smaller or use a pooler"},
	"55P03": {stalled, passes, "another transaction holds the row: keep transactions that fill buckets short"},
	"57014": {cancelled, passes, "the server's statement_timeout passed, or an operator cancelled it"},
	"57P":   {unknown, passes, stopping},
	"57P04": {unknown, ours, "the database was dropped"},
	"57P05": {retry, passes, "the server's idle_session_timeout is shorter than the pool's MaxConnIdleTime; set the latter below it"},
}

// refusals are the errors by which PgBouncer ends a connection before the server has applied
// anything of the transaction. PgBouncer has one code for all its errors, also for a server that
// broke in between, so the words tell them apart.
var refusals = []struct {
	words string
	answer
}{
	{"statement pooling mode", answer{down, ours, "set pool_mode to transaction or session in PgBouncer: in statement mode it refuses transactions"}},
	{"query_wait_timeout", answer{down, passes, "all connections of PgBouncer to the server were busy: raise default_pool_size, or use a smaller pool"}},
	{"no more connections allowed", answer{down, passes, "raise max_client_conn in PgBouncer, or use a smaller pool"}},
	{"client_login_timeout", answer{down, passes, "PgBouncer waits for the server"}},
	{"server login has been failing", answer{down, passes, "PgBouncer cannot log in to the server: see its log"}},
	{"server login failed", answer{down, ours, "PgBouncer cannot log in to the server: see its log"}},
	{"server conn crashed", answer{unknown, passes, ""}},
}

// reading returns the meaning of an error of the server.
func reading(pg *pgconn.PgError) answer {
	for _, r := range refusals {
		if pg.Code == "08P01" && strings.Contains(pg.Message, r.words) {
			return r.answer
		}
	}
	if pg.Code == "08P01" && cmp.Or(pg.SeverityUnlocalized, pg.Severity) == "ERROR" { // old servers and poolers send one severity
		return answer{down, ours, ""}
	}
	if pg.Code == "42501" && pg.Routine == "ExecWithCheckOptions" { // the words depend on lc_messages
		return answer{down, ours, "row security applies to this user: disable it on the table, or make the role BYPASSRLS"}
	}
	if isIdentity(pg) {
		return answer{refused, ours, "the sequence of the ids of accounts is behind: \"brim doctor\" prints the statement that sets it"}
	}
	for n := len(pg.Code); n >= 2; n-- {
		if a, listed := answers[pg.Code[:n]]; listed {
			return a
		}
	}
	return answer{refused, ours, ""}
}

// accounts ends the name of the table of accounts of package pgledger.
const accounts = "_accounts"

// isIdentity reports that a new account got an id from the sequence that another account has.
func isIdentity(pg *pgconn.PgError) bool {
	return pg.Code == "23505" && strings.HasSuffix(pg.TableName, accounts) && pg.ConstraintName == pg.TableName+"_pkey"
}

// judge reads a driver's error. Package pgconn documents SafeToRetry.
func judge(err error) verdict {
	var pg *pgconn.PgError
	switch {
	case gone(err), errors.As(err, new(late)), errors.As(err, new(*Unfit)),
		errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, pgx.ErrTxClosed), errors.Is(err, errors.ErrUnsupported):
		return down
	case errors.As(err, &pg):
		return reading(pg).verdict
	case pgconn.SafeToRetry(err) && !cutOff(err):
		return retry
	}
	return unknown
}

// gone reports that there was no connection to send the statement on.
func gone(err error) bool {
	return errors.As(err, new(*pgconn.ConnectError)) || errors.As(err, new(unsent))
}

// Class returns the sentinel of package store for a driver's error.
func Class(err error) error {
	var connect *pgconn.ConnectError
	var pg *pgconn.PgError
	switch {
	case judge(err) == unknown:
		return store.ErrUnknownOutcome
	case errors.As(err, new(late)), errors.As(err, new(standby)):
		return passes
	case errors.As(err, &connect):
		return connecting(connect)
	case errors.As(err, &pg):
		return reading(pg).class
	case passing(err), pgconn.SafeToRetry(err):
		return passes
	}
	return ours
}

// connecting returns the class of the error of an attempt to connect. The driver tries one server
// of the connection string after the other, and some sslmodes have it try each with and without
// TLS. The store is out of reach only if each of these errors passes by itself. Where the driver
// may do without TLS, the failure of TLS says nothing.
func connecting(err *pgconn.ConnectError) error {
	plain := err.Config.TLSConfig == nil ||
		slices.ContainsFunc(err.Config.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.TLSConfig == nil })
	class := ours
	for _, e := range attempts(err) {
		var pg *pgconn.PgError
		switch answered := errors.As(e, &pg); {
		case answered && reading(pg).class == passes, !answered && passing(e):
			class = passes
		case answered || !plain:
			return ours
		}
	}
	return class
}

// attempts returns the errors that the driver has joined.
func attempts(err error) []error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if joined, ok := inner.(interface{ Unwrap() []error }); ok {
			return joined.Unwrap()
		}
	}
	return []error{err}
}

// passing reports whether an error that is not the server's passes by itself: there was no answer,
// or the only servers that answered were standbys. An alert of TLS is an answer, although package
// tls makes an error of the network of it.
func passing(err error) bool {
	var network net.Error
	var op *net.OpError
	switch {
	case errors.As(err, &op) && strings.HasSuffix(op.Op, " error"):
		return false
	case errors.As(err, &network):
		return true
	}
	for _, passes := range []error{
		errGone, io.EOF, io.ErrUnexpectedEOF, context.DeadlineExceeded, context.Canceled,
		pgconn.ErrReadOnlyConnection, pgconn.ErrStandbyConnection,
	} {
		if errors.Is(err, passes) {
			return true
		}
	}
	return false
}

// standby is the error of a server that refuses to write because it is a standby. A fail-over ends
// that.
type standby struct{ error }

func (e standby) Unwrap() error { return e.error }

// OnStandby marks the error of a connection to a standby. The server reports in_hot_standby, also
// when it is promoted. A pooler may keep that from its clients: the error then counts as a setting
// of ours.
func OnStandby(conn *pgconn.PgConn, err error) error {
	if err != nil && judge(err) == readOnly && conn.ParameterStatus("in_hot_standby") == "on" {
		return standby{err}
	}
	return err
}

// Refused reports that the server answered no to a statement for several callers. Nothing was
// applied, and the part of each caller may succeed alone.
func Refused(err error) bool {
	return err != nil && (judge(err) == refused || judge(err) == cancelled)
}

// Stalled reports that a statement waited longer than its lock_timeout for a row, and that nothing
// was applied.
func Stalled(err error) bool { return err != nil && judge(err) == stalled }

// IsCode reports that the server answered with that SQLSTATE.
func IsCode(err error, code string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == code
}

// IsDuplicate reports that another transaction has inserted the same key, and that a repetition
// will find it. A sequence that is behind takes more than that.
func IsDuplicate(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505" && !isIdentity(pg)
}

// cutOff reports that the driver found the connection closed. Every statement goes out on an
// open connection, so the connection broke afterwards. SafeToRetry means that nothing was sent,
// but it also says so of batches and simple queries, a COMMIT among them, that were sent and
// whose connection broke before the answer: the driver looks for the next message once more
// after that.
func cutOff(err error) bool { return strings.HasSuffix(err.Error(), "conn closed") }

// errGone is the error of a connection that broke before the statement was sent.
var errGone = errors.New("the server closed the connection")

// late is the error of a statement that the server cancelled because it took too long for this
// package. Nothing was applied.
type late struct{ error }

func (e late) Unwrap() error { return e.error }

// unsent is the error of getting a connection: nothing was sent.
type unsent struct{ error }

func (e unsent) Unwrap() error { return e.error }

// explained reports an error that callers may see as it is, such as a backend's own before it sent
// a statement or about a row that it has read.
func explained(err error) bool {
	for _, known := range []error{
		store.ErrUnavailable, store.ErrUnknownOutcome, store.ErrMisconfigured, store.ErrCorrupt, store.ErrInvalidKey,
		errors.ErrUnsupported,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// explain makes the error that callers see: a sentinel, the cause and the way out. It never
// quotes the server's detail, which can hold a key.
func (r *Runner) explain(err error) error {
	if err == nil || explained(err) {
		return err
	}
	var pg *pgconn.PgError
	sentinel := Class(err)
	switch {
	case errors.As(err, new(late)):
		return fmt.Errorf("%w: nothing was applied within %v, see Options.StatementTimeout; is the table locked?", sentinel, r.Timeout)
	case errors.As(err, &pg):
		return fmt.Errorf("%w: %w", sentinel, &serverError{pg})
	// In the next two it is not the caller's context that has ended, so its error is not wrapped.
	case errors.As(err, new(unsent)) && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", sentinel, unsent{errors.New("no connection in time: " + err.Error())})
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: no answer within %v; see Options.StatementTimeout", sentinel, r.Timeout)
	case strings.HasSuffix(err.Error(), "closed pool"):
		return fmt.Errorf("%w: the pool is closed; close the store first, then the pool", sentinel)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), cutOff(err):
		return fmt.Errorf("%w: the server closed the connection", sentinel)
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}

// looked explains the error of a call that changes nothing, or whose changes nobody has
// committed: nothing was applied, however the call ended.
func (r *Runner) looked(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	err = r.explain(err)
	if errors.Is(err, store.ErrUnknownOutcome) {
		err = fmt.Errorf("%w%s", store.ErrUnavailable, strings.TrimPrefix(err.Error(), store.ErrUnknownOutcome.Error()))
	}
	return err
}

// Asked explains the error of a request that a combiner has decided and that changes nothing: its
// outcome is never unknown.
func (r *Runner) Asked(ctx context.Context, err error) error {
	if errors.Is(err, store.ErrUnknownOutcome) {
		return r.looked(ctx, err)
	}
	return err
}

// changed explains the error of a call that ran under the caller's own context.
func (r *Runner) changed(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() == nil:
		return r.explain(err)
	case judge(err) == unknown:
		return fmt.Errorf("%w: %w while the call was in flight", store.ErrUnknownOutcome, ctx.Err())
	}
	return ctx.Err()
}

// serverError is the server's error without its detail, hint and context, which can quote a
// row.
type serverError struct{ pg *pgconn.PgError }

func (e *serverError) Error() string {
	text := fmt.Sprintf("%s (SQLSTATE %s)", e.pg.Message, e.pg.Code)
	if way := reading(e.pg).advice; way != "" {
		text += "; " + way
	}
	return text
}

// Unwrap returns the driver's error, for its code.
func (e *serverError) Unwrap() error { return e.pg }
