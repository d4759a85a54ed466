package pgrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
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
	lost := store.ErrUnknownOutcome
	for _, c := range []struct {
		name, why string
		err       error
		want      verdict
		class     error
		says      string
	}{
		{"serialization", "the same statement may succeed", coded("40001"), serialized, passes, "run the whole transaction again"},
		{"deadlock", "the other transaction goes on, so a retry may succeed", coded("40P01"), retry, passes, "40P01"},
		{"idle in a transaction", "the server ended the transaction before its commit", coded("25P03"), retry, passes, "the client was stopped"},
		{"other session", "behind a pooler", coded("26000"), refused, ours, "default_query_exec_mode=exec"},
		{"idle session", "the server ended it before it read the statement", coded("57P05"), retry, passes, "MaxConnIdleTime"},
		{"read-only standby", "a fail-over ends it", standby{coded("25006")}, readOnly, passes, "target_session_attrs"},
		{"transaction timeout", "the server ended the transaction before its commit", coded("25P04"), retry, passes, "transaction_timeout"},
		{"duplicate", "another transaction was faster", coded("23505"), refused, passes, "the same ID"},
		{
			"row security", "no right is missing, so a grant does not help",
			&pgconn.PgError{Code: "42501", Routine: "ExecWithCheckOptions"}, down, ours, "BYPASSRLS",
		},
		{
			"sequence behind", "every new account fails until somebody sets the sequence",
			&pgconn.PgError{Code: "23505", TableName: "buckets_accounts", ConstraintName: "buckets_accounts_pkey"}, refused, ours, "brim doctor",
		},
		{
			"duplicate entry", "another transaction was faster",
			&pgconn.PgError{Code: "23505", TableName: "buckets_entries", ConstraintName: "buckets_entries_pkey"}, refused, passes, "the same ID",
		},
		{"full disk", "the operators make room", coded("53100"), down, passes, "make room"},
		{"no column", "every statement fails alike", coded("42703"), down, ours, "brim migrate up"},
		{"unlisted", "nobody knows whether it passes", coded("XX000"), refused, ours, "XX000"},
		{"no code", "nobody knows whether it passes", coded(""), refused, ours, "SQLSTATE"},
		{"dropped database", "the server may have committed before", coded("57P04"), unknown, lost, "dropped"},
		{"dropped database, connecting", "it does not come back by itself", unsent{coded("57P04")}, down, ours, "dropped"},
		{"starting", "nothing was sent", unsent{coded("57P03")}, down, passes, "starting"},
		{"connection exception, connecting", "nothing was sent", unsent{coded("08006")}, down, passes, "08006"},
		{"error of a hook", "it may come from anywhere, and nothing was sent", unsent{errors.New("boom")}, down, ours, "boom"},
		{"late", "a table was locked", late{errLate}, down, passes, "is the table locked"},
		{"untranslatable text", "another part of the batch may succeed", coded("22P05"), refused, store.ErrInvalidKey, "22P05"},
		{
			"pooler's password", "the pooler cannot log in",
			fatal("server login failed: FATAL password authentication failed"), down, ours, "cannot log in",
		},
		{"full pooler", "nothing was sent", unsent{fatal("no more connections allowed (max_client_conn)")}, down, passes, "max_client_conn"},
		{"pooler lost its server before BEGIN", "nothing was sent", unsent{fatal("server conn crashed?")}, down, passes, "08P01"},
		{"pooler without the database", "nothing was sent", unsent{fatal("no such database: x")}, down, ours, "08P01"},
		{"closed pool", "nothing was sent", unsent{errors.New("closed pool")}, down, ours, "close the store first"},
		{"read-only", "the server never writes", coded("25006"), readOnly, ours, "target_session_attrs"},
		{"shutdown", "the server may have committed before it stopped", coded("57P01"), unknown, lost, "stopping or starting"},
		{"protocol", "the connection failed at an unknown point", coded("08006"), unknown, lost, "08006"},
		{"no table", "every statement fails alike", coded("42P01"), down, ours, "brim migrate up"},
		{"no schema", "every statement fails alike", coded("3F000"), down, ours, "brim migrate up"},
		{"no database", "every statement fails alike", coded("3D000"), down, ours, "3D000"},
		{"privilege", "every statement fails alike", coded("42501"), down, ours, "grant SELECT"},
		{"connections", "every statement fails alike", coded("53300"), down, passes, "no connection left"},
		{"password", "every statement fails alike", coded("28P01"), down, ours, "user and the password"},
		{"lock timeout", "another part of the batch may succeed", coded("55P03"), stalled, passes, "another transaction holds the row"},
		{"cancelled", "another part of the batch may succeed", coded("57014"), cancelled, passes, "statement_timeout"},
		{"bad text", "another part of the batch may succeed", coded("22021"), refused, store.ErrInvalidKey, "22021"},
		{"no connection", "nothing was sent", unsent{io.EOF}, down, passes, "closed the connection"},
		{"no connection in time", "nothing was sent", unsent{context.DeadlineExceeded}, down, passes, "deadline exceeded"},
		{"rolled back", "a COMMIT that the server turned into a ROLLBACK", pgx.ErrTxCommitRollback, down, ours, "rollback"},
		{"ended", "the transaction was over", pgx.ErrTxClosed, down, ours, "tx is closed"},
		{"not sent", "the driver says that nothing was sent", safe{"write failed"}, retry, passes, "write failed"},
		{"conn closed", "the driver says so of statements that were sent, too", safe{"conn closed"}, unknown, lost, "closed the connection"},
		{"end of the stream", "the answer is missing", io.ErrUnexpectedEOF, unknown, lost, "closed the connection"},
		{"timeout", "the answer is missing", fmt.Errorf("read: %w", context.DeadlineExceeded), unknown, lost, "no answer within 1s"},
		{"bound", "the answer is missing", context.Canceled, unknown, lost, "no answer within 1s"},
		{
			"statement pooling", "the pooler ends the connection within the transaction",
			fatal("transaction blocks not allowed in statement pooling mode"), down, ours, "set pool_mode to transaction",
		},
		{"busy pooler", "the statement has not reached the server", fatal("query_wait_timeout"), down, passes, "default_pool_size"},
		{
			"pooler without a server", "the statement has not reached the server",
			fatal("server login has been failing, try again later (server_login_retry)"), down, passes, "cannot log in",
		},
		{"pooler lost its server", "the statement was sent", fatal("server conn crashed?"), unknown, lost, "08P01"},
		{"malformed", "the server refuses the statement", &pgconn.PgError{Code: "08P01", Severity: "ERROR"}, down, ours, "08P01"},
		{"aborted", "a statement before it failed", coded("25P02"), refused, ours, "roll the transaction back"},
		{"prepared twice", "behind a pooler", coded("42P05"), down, ours, "default_query_exec_mode=exec"},
		{"standby", "a fail-over can lose the commit", errUnsynced, unknown, lost, "standby was cancelled"},
		{"another error", "it may come from anywhere", errors.New("boom"), unknown, lost, "boom"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := judge(c.err); got != c.want {
				t.Errorf("verdict %d, want %d: %s", got, c.want, c.why)
			}
			if Refused(c.err) != (c.want == refused || c.want == cancelled) {
				t.Errorf("Refused is %t", Refused(c.err))
			}
			err := r.explain(c.err)
			if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q, want %q with %q", err, c.class, c.says)
			}
			classes := 0
			for _, class := range []error{passes, ours, lost, store.ErrInvalidKey} {
				classes += strings.Count(err.Error(), class.Error())
			}
			if classes != 1 {
				t.Errorf("error %q has %d classes", err, classes)
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
			looked := c.class
			if looked == lost {
				looked = passes
			}
			if err := r.looked(t.Context(), c.err); !errors.Is(err, looked) {
				t.Errorf("a call that changes nothing: %q, want %q", err, looked)
			}
			if err := r.changed(t.Context(), c.err); !errors.Is(err, c.class) {
				t.Errorf("a call under its own context: %q, want %q", err, c.class)
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

// TestErrorsAreDocumented finds each code of the table in that of docs/errors.md, in a row with its
// sentinel.
func TestErrorsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Answers of PostgreSQL\n")
	names := map[error]string{passes: "ErrUnavailable", ours: "ErrMisconfigured", store.ErrInvalidKey: "ErrInvalidKey"}
	for code, a := range answers {
		if code == "57P" || code == "08P01" { // the rows name the codes of the first, and the words of PgBouncer for the other
			continue
		}
		found := false
		for line := range strings.Lines(section) {
			cells := strings.Split(line, "|")
			if len(cells) > 3 && regexp.MustCompile(`\b`+code[:2]+`(`+code[2:]+`|,|:|\b )`).MatchString(cells[1]) {
				found = found || strings.Contains(cells[3], names[a.class])
			}
		}
		if !found {
			t.Errorf("docs/errors.md does not list %s with %s", code, names[a.class])
		}
	}
}
