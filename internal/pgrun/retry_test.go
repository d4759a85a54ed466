package pgrun

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/brimgo/brim/store"
)

// quiet returns a runner without a pool, and the retries that it reports.
func quiet() (*Runner, *[]store.Retry) {
	var retries []store.Retry
	o := Options{
		Log:   slog.New(slog.DiscardHandler),
		Trace: store.Trace{Retry: func(r store.Retry) { retries = append(retries, r) }},
	}
	return &Runner{server: &server{Options: o}, backend: "test"}, &retries
}

func TestRetry(t *testing.T) {
	boom, deadlock := errors.New("boom"), coded("40P01")
	for _, c := range []struct {
		name, why string
		errs      []error // of the attempts, in their order
		want      error
		attempts  int
		reported  int
	}{
		{"good", "", []error{nil}, nil, 1, 0},
		{"a deadlock", "nothing was applied", []error{deadlock, nil}, nil, 2, 1},
		{"deadlocks", "four attempts are enough", []error{deadlock, deadlock, deadlock, deadlock, nil}, deadlock, 4, 3},
		{"first serialization failure", "the next attempt differs: it asks for READ COMMITTED", []error{coded("40001"), nil}, nil, 2, 0},
		{"second serialization failure", "it has another cause", []error{coded("40001"), coded("40001"), nil}, nil, 3, 1},
		{"not sent", "nothing was applied", []error{safe{"write failed"}, nil}, nil, 2, 1},
		{"refused", "the same statement is refused again", []error{coded("22021"), nil}, coded("22021"), 1, 0},
		{"cancelled", "lock_timeout may have passed at a bad moment", []error{coded("57014"), nil}, nil, 2, 1},
		{"cancelled twice", "somebody means it", []error{coded("57014"), coded("57014"), nil}, coded("57014"), 2, 1},
		{"unknown", "a second attempt could apply it twice", []error{boom, nil}, boom, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, reported := quiet()
				err, n := c.errs[0], 1
				for ; r.again(t.Context(), n-1, err); n++ {
					err = c.errs[n]
				}
				if (err == nil) != (c.want == nil) || err != nil && err.Error() != c.want.Error() || n != c.attempts {
					t.Errorf("%v after %d attempts, want %v after %d: %s", err, n, c.want, c.attempts, c.why)
				}
				if len(*reported) != c.reported {
					t.Errorf("%d retries were reported, want %d", len(*reported), c.reported)
				}
				for i, told := range *reported {
					if told.Backend != "test" || told.Attempt == 0 || !errors.Is(told.Err, store.ErrUnavailable) {
						t.Errorf("retry %d was reported as %+v", i, told)
					}
				}
			})
		})
	}
	t.Run("a context that ends", func(t *testing.T) {
		r, _ := quiet()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if r.again(ctx, 0, coded("40P01")) {
			t.Error("there is another attempt, want none")
		}
	})
}
