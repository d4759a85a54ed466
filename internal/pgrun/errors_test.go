package pgrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/brimgo/brim/store"
)

// safe is a driver's error for a statement that was not sent.
type safe struct{ text string }

func (e safe) Error() string     { return e.text }
func (e safe) SafeToRetry() bool { return true }

func coded(code string) error {
	return &pgconn.PgError{Code: code, Message: "the server's words", Detail: "Key (key)=(secret) already exists."}
}

// fatal is an error by which PgBouncer ends a connection.
func fatal(message string) error {
	return &pgconn.PgError{Severity: "FATAL", Code: "08P01", Message: message}
}

func TestErrors(t *testing.T) {
	r := &Runner{server: &server{Options: Options{Timeout: time.Second}}}
	for _, c := range []struct {
		name, why string
		err       error
		want      verdict
		says      string
	}{
		{"serialization", "the same statement may succeed", coded("40001"), serialized, "run the whole transaction again"},
		{"deadlock", "the other transaction goes on, so a retry may succeed", coded("40P01"), retry, "40P01"},
		{"idle in a transaction", "the server ended the transaction before its commit", coded("25P03"), retry, "the client was stopped"},
		{"other session", "behind a pooler", coded("26000"), refused, "default_query_exec_mode=exec"},
		{"idle session", "the server ended it before it read the statement", coded("57P05"), retry, "MaxConnIdleTime"},
		{"closed pool", "nothing was sent", unsent{errors.New("closed pool")}, down, "close the store first"},
		{"read-only", "the server never writes", coded("25006"), readOnly, "target_session_attrs"},
		{"shutdown", "the server may have committed before it stopped", coded("57P01"), unknown, "stopping or starting"},
		{"protocol", "the connection failed at an unknown point", coded("08006"), unknown, "08006"},
		{"no table", "every statement fails alike", coded("42P01"), down, "brim migrate up"},
		{"no schema", "every statement fails alike", coded("3F000"), down, "brim migrate up"},
		{"no database", "every statement fails alike", coded("3D000"), down, "3D000"},
		{"privilege", "every statement fails alike", coded("42501"), down, "grant SELECT"},
		{"connections", "every statement fails alike", coded("53300"), down, "no connection left"},
		{"password", "every statement fails alike", coded("28P01"), down, "user and the password"},
		{"lock timeout", "another part of the batch may succeed", coded("55P03"), stalled, "another transaction holds the row"},
		{"cancelled", "another part of the batch may succeed", coded("57014"), cancelled, "statement_timeout"},
		{"bad text", "another part of the batch may succeed", coded("22021"), refused, "22021"},
		{"no connection", "nothing was sent", unsent{io.EOF}, down, "closed the connection"},
		{"no connection in time", "nothing was sent", unsent{context.DeadlineExceeded}, down, "deadline exceeded"},
		{"rolled back", "a COMMIT that the server turned into a ROLLBACK", pgx.ErrTxCommitRollback, down, "rollback"},
		{"ended", "the transaction was over", pgx.ErrTxClosed, down, "tx is closed"},
		{"not sent", "the driver says that nothing was sent", safe{"write failed"}, retry, "write failed"},
		{"conn closed", "the driver says so of statements that were sent, too", safe{"conn closed"}, unknown, "closed the connection"},
		{"end of the stream", "the answer is missing", io.ErrUnexpectedEOF, unknown, "closed the connection"},
		{"timeout", "the answer is missing", fmt.Errorf("read: %w", context.DeadlineExceeded), unknown, "no answer within 1s"},
		{"bound", "the answer is missing", context.Canceled, unknown, "no answer within 1s"},
		{
			"statement pooling", "the pooler ends the connection within the transaction",
			fatal("transaction blocks not allowed in statement pooling mode"), down, "set pool_mode to transaction",
		},
		{"busy pooler", "the statement has not reached the server", fatal("query_wait_timeout"), down, "default_pool_size"},
		{
			"pooler without a server", "the statement has not reached the server",
			fatal("server login has been failing, try again later (server_login_retry)"), down, "cannot log in",
		},
		{"pooler lost its server", "the statement was sent", fatal("server conn crashed?"), unknown, "08P01"},
		{"malformed", "the server refuses the statement", &pgconn.PgError{Code: "08P01", Severity: "ERROR"}, down, "08P01"},
		{"aborted", "a statement before it failed", coded("25P02"), refused, "roll the transaction back"},
		{"prepared twice", "behind a pooler", coded("42P05"), down, "default_query_exec_mode=exec"},
		{"standby", "a fail-over can lose the commit", errUnsynced, unknown, "standby was cancelled"},
		{"another error", "it may come from anywhere", errors.New("boom"), unknown, "boom"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sentinel := store.ErrUnavailable
			if c.want == unknown {
				sentinel = store.ErrUnknownOutcome
			}
			if got := judge(c.err); got != c.want {
				t.Errorf("verdict %d, want %d: %s", got, c.want, c.why)
			}
			if Refused(c.err) != (c.want == refused || c.want == cancelled) {
				t.Errorf("Refused is %t", Refused(c.err))
			}
			err := r.explain(c.err)
			if !errors.Is(err, sentinel) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q, want %q with %q", err, sentinel, c.says)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error %q quotes a row", err)
			}
			if errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %q is one of a context, although the caller's has not ended", err)
			}
			if again := r.explain(err); again != err {
				t.Errorf("explained twice: %q", again)
			}
			var pg *pgconn.PgError
			if errors.As(c.err, &pg) && !IsCode(err, pg.Code) {
				t.Errorf("error %q has lost its code", err)
			}
			if err := r.looked(t.Context(), c.err); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("a call that changes nothing: %q, want ErrUnavailable", err)
			}
			if err := r.changed(t.Context(), c.err); !errors.Is(err, sentinel) {
				t.Errorf("a call under its own context: %q, want %q", err, sentinel)
			}

			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := r.looked(ctx, c.err); err != context.Canceled {
				t.Errorf("a call that changes nothing, cancelled: %q, want the context's error alone", err)
			}
			err = r.changed(ctx, c.err)
			if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrUnknownOutcome) != (c.want == unknown) {
				t.Errorf("a call under its own context, cancelled: %q, verdict %d", err, c.want)
			}
		})
	}
	if err := errors.Join(r.explain(nil), r.looked(t.Context(), nil), r.changed(t.Context(), nil)); err != nil {
		t.Errorf("no error became %v", err)
	}
	if Refused(nil) || IsCode(nil, "") {
		t.Error("no error is taken for one of the server's")
	}
}
