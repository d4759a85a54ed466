package bolt

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/brimgo/brim/store"
)

const backend = "bolt"

// fault is an error whose message stands alone, and which errors.Is finds the causes of: a message that says what happened
// and what to do is not made better by "store unavailable" in its middle.
type fault struct {
	msg    string
	causes []error
}

func (f *fault) Error() string   { return f.msg }
func (f *fault) Unwrap() []error { return f.causes }

// damagef is a [store.ErrCorrupt]. Its message must not hold a key.
func damagef(format string, args ...any) error {
	return &fault{msg: fmt.Sprintf(format, args...), causes: []error{store.ErrCorrupt}}
}

// unavailable is a [store.ErrUnavailable] that keeps cause, which may be nil, for errors.Is.
func unavailable(msg string, cause error) error {
	f := &fault{msg: msg, causes: []error{store.ErrUnavailable}}
	if cause != nil {
		f.causes = append(f.causes, cause)
	}
	return f
}

// panicked is the error for a panic out of bbolt, which panics, or touches memory that is not there, where a page makes no
// sense to it.
func panicked(p any) error { return damagef("reading or writing a page failed: %v", p) }

// isDiskFailure reports whether err is the disk's own failure, after which nothing that the system has cached of the file
// can be relied upon. bbolt passes some errors on as text only.
func isDiskFailure(err error) bool {
	return errors.Is(err, syscall.EIO) || strings.Contains(err.Error(), syscall.EIO.Error())
}
