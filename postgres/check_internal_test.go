package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// The servers that tests can start are new enough.
func TestCheckOfVersion(t *testing.T) {
	for number, name := range map[int]string{90624: "9.6.24", 130023: "13.23", 140000: "", 180001: ""} {
		k := &checker{}
		k.version(number, name)
		if len(k.findings) != 0 != (name != "") || name != "" && !strings.Contains(k.findings[0].Problem, "is 14") {
			t.Errorf("%d: %v", number, k.findings)
		}
	}
}

// TestForgets: an error about a prepared statement is the pooler's, and another is the check's.
func TestForgets(t *testing.T) {
	other := errors.New("the connection is gone")
	for _, c := range []struct {
		why   string
		err   error
		found bool
		fails bool
	}{
		{"the statement was prepared in another session", &pgconn.PgError{Code: "26000"}, true, false},
		{"another client has prepared one of this name", &pgconn.PgError{Code: "42P05"}, true, false},
		{"the server refuses the question for another reason", &pgconn.PgError{Code: "42501"}, false, true},
		{"the server gave no answer", other, false, true},
		{"the session kept the statement", nil, false, false},
	} {
		k := &checker{}
		if err := k.forgets(c.err); (err != nil) != c.fails || len(k.findings) == 1 != c.found {
			t.Errorf("%s: %v, %v; want a finding: %v, an error: %v", c.why, k.findings, err, c.found, c.fails)
		}
	}
}
