package queue_test

import (
	"context"
	"errors"
	"slices"
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
					if err := q.Put(t.Context(), i); err != nil {
						t.Fatal(err)
					}
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
		if err := q.Put(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if left := q.Abandon(); len(left) != 0 || !ended {
			t.Errorf("left %v, release ended: %v; want none left and an ended release", left, ended)
		}
	})
}
