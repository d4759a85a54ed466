package sqliterun

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"

	"github.com/brimgo/brim/store"
)

// Result codes of SQLite; see https://sqlite.org/rescode.html.
const (
	codeBusy      = 5
	codeLocked    = 6
	codeNoMem     = 7
	codeReadonly  = 8
	codeInterrupt = 9
	codeIOErr     = 10
	codeCorrupt   = 11
	codeFull      = 13
	codeProtocol  = 15
	codeNotADB    = 26

	codeBusySnapshot = codeBusy | 2<<8
)

// fault is an error with a text of its own and causes that errors.Is finds.
type fault struct {
	msg    string
	causes []error
}

func (f *fault) Error() string   { return f.msg }
func (f *fault) Unwrap() []error { return f.causes }

// Unavailable returns an error that is [store.ErrUnavailable] and cause, which may be nil.
func Unavailable(cause error, format string, args ...any) error {
	return newFault(store.ErrUnavailable, cause, format, args...)
}

// Misconfigured returns an error that is [store.ErrMisconfigured] and cause, which may be nil.
func Misconfigured(cause error, format string, args ...any) error {
	return newFault(store.ErrMisconfigured, cause, format, args...)
}

// Damagef returns an error that is [store.ErrCorrupt]. The text must not hold a key.
func Damagef(format string, args ...any) error {
	return newFault(store.ErrCorrupt, nil, format, args...)
}

func newFault(class, cause error, format string, args ...any) error {
	f := &fault{fmt.Sprintf(format, args...), []error{class}}
	if cause != nil {
		f.causes = append(f.causes, cause)
	}
	return f
}

// ResultCode returns the (extended) result code in an error of a driver, or 0. No driver is
// imported: the error of modernc.org/sqlite has a method Code, that of ncruces/go-sqlite3 has a
// method ExtendedCode, and that of mattn/go-sqlite3 has a field ExtendedCode, which can be 0 beside
// Code.
func ResultCode(err error) (code int) {
	for ; err != nil && code == 0; err = errors.Unwrap(err) {
		v := reflect.ValueOf(err)
		for _, name := range [...]string{"ExtendedCode", "Code"} {
			if m := v.MethodByName(name); m.IsValid() && m.Type().NumIn() == 0 && m.Type().NumOut() == 1 {
				code = integer(m.Call(nil)[0])
			} else if s := reflect.Indirect(v); s.Kind() == reflect.Struct {
				code = integer(s.FieldByName(name))
			}
			if code != 0 {
				break
			}
		}
	}
	return code
}

func integer(v reflect.Value) int {
	switch {
	case !v.IsValid():
		return 0
	case v.CanInt():
		return int(v.Int())
	case v.CanUint():
		return int(v.Uint())
	}
	return 0
}

func primary(err error) int { return ResultCode(err) & 0xff }

// busy reports whether another connection has the lock that a statement needs.
func busy(err error) bool { return primary(err) == codeBusy || primary(err) == codeLocked }

// classed reports whether an error has a class of package store, or is that of a context.
func classed(err error) bool {
	for _, class := range [...]error{
		store.ErrUnavailable, store.ErrMisconfigured, store.ErrCorrupt, store.ErrUnknownOutcome, store.ErrClosed, errors.ErrUnsupported,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// Explain turns an error of a statement before the commit into one of package store: nothing was
// applied. It is [store.ErrUnavailable] only if it is known to pass by itself, or by the room that
// somebody makes.
func Explain(err error) error {
	if err == nil || classed(err) {
		return err
	}
	switch code := ResultCode(err); code & 0xff {
	case codeBusy, codeLocked:
		if code == codeBusySnapshot {
			return Unavailable(err, "another connection has written since this transaction began to read, so that it cannot write any more; "+
				"roll it back, and let it write first, or begin it by BEGIN IMMEDIATE (%v)", err)
		}
		return Unavailable(err, "another connection has the write lock of the database, and nothing was applied (%v)", err)
	case codeCorrupt, codeNotADB:
		return newFault(store.ErrCorrupt, err, "the database is damaged; restore the last backup (%v)", err)
	case codeFull, codeIOErr, codeNoMem, codeInterrupt, codeProtocol:
		return Unavailable(err, "%v; nothing was applied", err)
	}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return Unavailable(err, "%v; nothing was applied", err)
	}
	return Misconfigured(err, "%v; nothing was applied", err)
}

// explainCommit is Explain for an error of COMMIT. SQLite has rolled back, or can still, if
// somebody else has a lock, or the disk is full. After a failed write or sync, the next process
// that opens the file may find the commit in the log.
func explainCommit(err error) error {
	switch primary(err) {
	case codeBusy, codeLocked, codeFull, codeReadonly, codeInterrupt:
		return Explain(err)
	}
	return newFault(store.ErrUnknownOutcome, err, "the commit failed: %v", err)
}
