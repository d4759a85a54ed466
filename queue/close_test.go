package queue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/queue"
)

func TestClose(t *testing.T) {
	for _, tc := range []struct {
		name    string
		timeout time.Duration // of the context of Close; 0 means none
		abandon bool          // Abandon instead of Close
		want    int           // released items
		left    []int         // items that Abandon returns
		took    time.Duration
	}{
		{name: "drained", want: 5, left: []int{}, took: 400 * ms},
		{name: "drained in time", timeout: time.Second, want: 5, left: []int{}, took: 400 * ms},
		{name: "out of time", timeout: 250 * ms, want: 3, left: []int{3, 4}, took: 250 * ms},
		{name: "abandoned", abandon: true, want: 1, left: []int{1, 2, 3, 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLog()
				q := open(t, brim.Smooth(10, 400*ms), l.record, &queue.Options[int]{Block: true})
				for i := range 5 {
					must(t, q.Put(t.Context(), i))
					synctest.Wait()
				}
				var blocked sync.WaitGroup
				blocked.Go(func() {
					if err := q.Put(t.Context(), 5); !errors.Is(err, queue.ErrClosed) {
						t.Errorf("a Put that waits for room: %v; want ErrClosed", err)
					}
				})
				synctest.Wait()
				var left []int
				if tc.abandon {
					left = q.Abandon()
				} else {
					ctx := t.Context()
					if tc.timeout > 0 {
						var cancel func()
						ctx, cancel = context.WithTimeout(ctx, tc.timeout)
						defer cancel()
					}
					err := q.Close(ctx)
					if (err != nil) != (len(tc.left) > 0) || err != nil && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("Close: %v", err)
					}
				}
				if took := time.Since(l.start); took != tc.took || len(l.got) != tc.want {
					t.Errorf("%d released after %v; want %d after %v", len(l.got), took, tc.want, tc.took)
				}
				if !tc.abandon {
					left = q.Abandon()
				}
				if !slices.Equal(left, tc.left) || len(q.Abandon()) != 0 || q.Len() != 0 {
					t.Errorf("left %v; want %v, once", left, tc.left)
				}
				blocked.Wait()
				if err := q.Put(t.Context(), 6); !errors.Is(err, queue.ErrClosed) {
					t.Errorf("a later Put: %v; want ErrClosed", err)
				}
				if err := q.Close(t.Context()); err != nil {
					t.Errorf("a second Close: %v", err)
				}
			})
		})
	}
}

// TestAbandonEndsRelease abandons the queue during a release. The context of the release must
// end, and Abandon must wait for the release.
func TestAbandonEndsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		q := open(t, brim.Smooth(10, time.Second), func(ctx context.Context, _ int) {
			<-ctx.Done()
			time.Sleep(time.Second)
			ended = true
		}, nil)
		must(t, q.Put(t.Context(), 1))
		synctest.Wait()
		if left := q.Abandon(); len(left) != 0 || !ended {
			t.Errorf("left %v, release ended: %v; want none left and an ended release", left, ended)
		}
	})
}

// TestCloseReturnsInTime closes the queue during a release that ignores its context, as a call into
// another library may. Close must return when its own context ends, or a program that shuts down
// would miss its deadline. Abandon must still wait, so that no item is lost or released twice.
func TestCloseReturnsInTime(t *testing.T) {
	for _, tc := range []struct {
		name      string
		puts      int
		ignores   bool          // the release goes on for a minute after its context has ended
		wait      time.Duration // between the first release and Close
		timeout   time.Duration
		err       string
		took, end time.Duration // from Close until it returns, and until the last release has returned
		left      []int
	}{
		{
			name: "items are left", puts: 3, ignores: true, timeout: 250 * ms, took: 250 * ms, end: time.Minute,
			err: "2 items abandoned, and a release is still in progress: ", left: []int{1, 2},
		},
		{
			name: "only the release is left", puts: 1, ignores: true, timeout: 250 * ms, took: 250 * ms, end: time.Minute,
			err: "0 items abandoned, and a release is still in progress: ", left: []int{},
		},
		{
			name: "the context has ended before", puts: 1, ignores: true, timeout: -1, end: time.Minute,
			err: "0 items abandoned, and a release is still in progress: ", left: []int{},
		},
		{
			name: "between two releases", puts: 2, wait: time.Second, timeout: 250 * ms, took: 250 * ms, end: 250 * ms,
			err: "1 items abandoned: ", left: []int{1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started, ended := 0, 0
				q := open(t, brim.Smooth(0.1, time.Minute), func(ctx context.Context, _ int) {
					started++
					if tc.ignores {
						time.Sleep(time.Minute)
					}
					ended++
				}, nil)
				for i := range tc.puts {
					must(t, q.Put(t.Context(), i))
				}
				time.Sleep(tc.wait)
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), tc.timeout)
				defer cancel()
				start := time.Now()
				err := q.Close(ctx)
				if took := time.Since(start); took != tc.took || !errors.Is(err, context.DeadlineExceeded) ||
					!strings.Contains(err.Error(), tc.err) {
					t.Errorf("Close took %v: %v; want %v and %q", took, err, tc.took, tc.err)
				}
				if !tc.ignores {
					for range 20 {
						if err := q.Close(ctx); err != nil {
							t.Fatalf("another Close after the worker has ended: %v; want nil each time", err)
						}
					}
				}
				left := q.Abandon()
				if took := time.Since(start); took != tc.end || !slices.Equal(left, tc.left) || started != ended {
					t.Errorf("Abandon returned %v after %v, with %d of %d releases ended; want %v after %v",
						left, took, ended, started, tc.left, tc.end)
				}
				if err := q.Close(ctx); err != nil {
					t.Errorf("a second Close: %v", err)
				}
			})
		})
	}
}
