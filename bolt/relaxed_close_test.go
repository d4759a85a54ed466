package bolt

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/brimgo/brim/store"
)

// hookContext is a context that calls hook when it is first asked for its error.
type hookContext struct {
	context.Context
	hook func()
}

func (c hookContext) Err() error {
	c.hook()
	return c.Context.Err()
}

// during returns a context that calls hook while a call that is given the context has begun and
// has not looked at a bucket.
func during(ctx context.Context, hook func()) context.Context {
	return hookContext{ctx, sync.OnceFunc(hook)}
}

// TestRelaxedCallsDuringClose: a change that comes when Close has collected all changes would not
// be written any more, so it is refused.
func TestRelaxedCallsDuringClose(t *testing.T) {
	for _, name := range []string{"fill", "apply", "delete"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "limits.db")
				r := openRelaxed(t, path, never)
				fillup(t, r, "k", 1)
				lockFile(t, r.s.db.File())
				closed := make(chan error)
				callOf(r, name).refuses(t, during(t.Context(), func() {
					go func() { closed <- r.Close() }()
					synctest.Wait() // Close waits for the disk
				}), store.ErrClosed)
				r.s.db.File().Unlock()
				must(t, <-closed)
				levelIs(t, openAt(t, path, nil), "k", 1)
			})
		})
	}
}

// TestRelaxedCallsInFlightAtClose: a call that has begun when Close returns is refused, and waits
// for nothing.
func TestRelaxedCallsInFlightAtClose(t *testing.T) {
	for _, name := range []string{"fill", "read", "delete", "visit"} {
		t.Run(name, func(t *testing.T) {
			r := openRelaxed(t, filepath.Join(t.TempDir(), "limits.db"), never)
			fillup(t, r, "k", 1)
			callOf(r, name).refuses(t, during(t.Context(), func() { closeStore(t, r) }), store.ErrClosed)
		})
	}
}
