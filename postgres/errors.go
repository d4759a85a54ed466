package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/brimgo/brim/store"
)

// verdict says what an error from the driver means for what was sent.
type verdict uint8

const (
	refused    verdict = iota // the server answered no: nothing was applied
	retry                     // nothing was applied, and the same statement may succeed
	serialized                // retry, and the session's isolation is not READ COMMITTED
	readOnly                  // nothing was applied, and this connection will never apply anything
	down                      // nothing was applied, and another statement would fare no better
	unknown                   // the server may have applied it
)

// judge reads a driver's error. See the table in the documentation of package pgconn, SafeToRetry, and appendix A of
// PostgreSQL's manual for the codes.
func judge(err error) verdict {
	var pg *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &connect), errors.As(err, new(unsent)), errors.Is(err, pgx.ErrTxCommitRollback), errors.Is(err, pgx.ErrTxClosed):
		return down
	case errors.As(err, &pg):
		switch {
		case pg.Code == "40001":
			return serialized
		case pg.Code == "40P01":
			return retry
		case pg.Code == "25006":
			return readOnly
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

// cutOff reports that the connection was found closed. All that is sent is sent on a connection that was open, so it broke
// underway. The driver means to say that nothing was sent, but says it as well of batches and simple queries, a commit among
// them, that were sent and whose connection broke before the answer: it looks for the next message once more after that.
func cutOff(err error) bool { return strings.HasSuffix(err.Error(), "conn closed") }

// unsent is the error of getting a connection: nothing was sent on it.
type unsent struct{ error }

func (e unsent) Unwrap() error { return e.error }

// explain makes the error that callers see: a sentinel, what was wrong and what would be right. It never quotes the server's
// detail, which can hold a key.
func (s *Store) explain(err error) error {
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknownOutcome) {
		return err
	}
	var pg *pgconn.PgError
	sentinel := store.ErrUnavailable
	if judge(err) == unknown {
		sentinel = store.ErrUnknownOutcome
	}
	switch {
	case errors.As(err, &pg):
		return fmt.Errorf("%w: %w", sentinel, &serverError{pg: pg, advice: advice(pg.Code)})
	case errors.Is(err, context.DeadlineExceeded) && !errors.As(err, new(unsent)):
		// Not wrapped: it is not the caller's deadline that has passed.
		return fmt.Errorf("%w: no answer within %v; see Options.StatementTimeout", sentinel, s.timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), cutOff(err):
		return fmt.Errorf("%w: the server closed the connection", sentinel)
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}

// advice is what to do about a code of the server's.
func advice(code string) string {
	switch {
	case code == "42P01", code == "3F000", code == "42703":
		return `run "brim migrate up", or migrations.Up, first`
	case code == "25006":
		return "decisions are made on the primary; connect to it, for instance with target_session_attrs=read-write"
	case code == "55P03":
		return "another transaction holds the row: keep transactions that fill buckets short"
	case code == "57014":
		return "the server's statement_timeout passed, or an operator cancelled it"
	case code == "42501":
		return "grant SELECT, INSERT, UPDATE and DELETE on the table, and USAGE on its schema"
	case code == "53300":
		return "the server has no connection left; make the pool smaller or use a pooler"
	case strings.HasPrefix(code, "28"):
		return "check the user and the password"
	case code == "40001":
		return "run the whole transaction again"
	case strings.HasPrefix(code, "57P"):
		return "the server is stopping or starting"
	}
	return ""
}

// serverError is an error of the server's without the detail, hint and context that may quote a row.
type serverError struct {
	pg     *pgconn.PgError
	advice string
}

func (e *serverError) Error() string {
	text := fmt.Sprintf("%s (SQLSTATE %s)", e.pg.Message, e.pg.Code)
	if e.advice != "" {
		text += "; " + e.advice
	}
	return text
}

// Unwrap returns the driver's error, for its code.
func (e *serverError) Unwrap() error { return e.pg }

const retries = 3

// backoff waits before the nth retry: full jitter, so that those who collided do not meet again.
func backoff(ctx context.Context, n int) error {
	t := time.NewTimer(rand.N(10 * time.Millisecond << n))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
