package pgrun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

// judge reads a driver's error. Package pgconn documents SafeToRetry; appendix A of
// PostgreSQL's manual lists the codes.
func judge(err error) verdict {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &connect), errors.As(err, new(unsent)), errors.As(err, new(late)),
		errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, pgx.ErrTxClosed), errors.Is(err, errors.ErrUnsupported):
		return down
	case errors.As(err, &pg):
		switch {
		case pg.Code == "40001":
			return serialized
		case pg.Code == "40P01", pg.Code == "25P03", pg.Code == "57P05":
			return retry // the server ended an idle session before it read the statement, or a deadlock
		case pg.Code == "25006":
			return readOnly
		case pg.Code == "55P03":
			return stalled
		case pg.Code == "57014":
			return cancelled
		case pg.Code == "08P01" && (severity(pg) == "ERROR" || refusal(pg) != ""):
			return down
		case strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "57P"):
			return unknown
		}
		for _, class := range []string{"42", "3F", "53", "28", "3D"} {
			if strings.HasPrefix(pg.Code, class) {
				return down
			}
		}
		return refused
	case pgconn.SafeToRetry(err) && !cutOff(err):
		return retry
	}
	return unknown
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

// explain makes the error that callers see: a sentinel, the cause and the way out. It never
// quotes the server's detail, which can hold a key.
func (r *Runner) explain(err error) error {
	if err == nil || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) ||
		errors.Is(err, errors.ErrUnsupported) { // a backend's own error, before it sent a statement
		return err
	}
	var pg *pgconn.PgError
	sentinel := store.ErrUnavailable
	if judge(err) == unknown {
		sentinel = store.ErrUnknownOutcome
	}
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

// advice returns the way out after an error of the server, or "".
func advice(pg *pgconn.PgError) string {
	if pg == nil {
		return ""
	}
	switch code := pg.Code; {
	case code == "42P01", code == "3F000", code == "42703":
		return `run "brim migrate up", or migrations.Up, first`
	case code == "25006":
		return "decisions are made on the primary; connect to it, for instance with target_session_attrs=read-write"
	case code == "55P03":
		return "another transaction holds the row: keep transactions that fill buckets short"
	case code == "57014":
		return "the server's statement_timeout passed, or an operator cancelled it"
	case code == "26000", code == "42P05":
		return "a pooler has given the connection another session: put default_query_exec_mode=exec into the " +
			"connection string, or set max_prepared_statements above 0 in PgBouncer 1.21 or newer"
	case code == "57P05":
		return "the server's idle_session_timeout is shorter than the pool's MaxConnIdleTime; set the latter below it"
	case code == "25P03":
		return "the client was stopped for longer than Options.StatementTimeout while it held rows"
	case code == "42501":
		return "grant SELECT, INSERT, UPDATE and DELETE on the table, and USAGE on its schema"
	case code == "53300":
		return "the server has no connection left; make the pool smaller or use a pooler"
	case strings.HasPrefix(code, "28"):
		return "check the user and the password"
	case code == "25P02":
		return "a statement before it in the same transaction has failed; roll the transaction back"
	case code == "40001":
		return "run the whole transaction again"
	case strings.HasPrefix(code, "57P"):
		return "the server is stopping or starting"
	}
	return refusal(pg)
}

// refusals are the errors by which PgBouncer ends a connection before the server has applied
// anything of the transaction. PgBouncer has one code for all its errors, also for a server that
// broke in between, so the words tell them apart.
var refusals = []struct{ words, advice string }{
	{"statement pooling mode", "set pool_mode to transaction or session in PgBouncer: in statement mode it refuses transactions"},
	{"query_wait_timeout", "all connections of PgBouncer to the server were busy: raise default_pool_size, or use a smaller pool"},
	{"server login", "PgBouncer cannot log in to the server: see its log"},
}

// refusal returns the way out after a refusal of PgBouncer, or "".
func refusal(pg *pgconn.PgError) string {
	for _, r := range refusals {
		if pg.Code == "08P01" && strings.Contains(pg.Message, r.words) {
			return r.advice
		}
	}
	return ""
}

// severity returns the severity of an error; old servers and poolers send it in the language of the
// session only.
func severity(pg *pgconn.PgError) string { return cmp.Or(pg.SeverityUnlocalized, pg.Severity) }

// serverError is the server's error without its detail, hint and context, which can quote a
// row.
type serverError struct{ pg *pgconn.PgError }

func (e *serverError) Error() string {
	text := fmt.Sprintf("%s (SQLSTATE %s)", e.pg.Message, e.pg.Code)
	if way := advice(e.pg); way != "" {
		text += "; " + way
	}
	return text
}

// Unwrap returns the driver's error, for its code.
func (e *serverError) Unwrap() error { return e.pg }
