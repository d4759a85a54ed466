package combine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestFlushed sees how each flush is reported.
func TestFlushed(t *testing.T) {
	boom := errors.New("boom")
	type report struct {
		requests int
		took     time.Duration
		err      error
	}
	synctest.Test(t, func(t *testing.T) {
		var reports []report
		g := newGate()
		c := mustNew(t, func(lane int, batch []*Request[int, int]) {
			time.Sleep(time.Second) // of the bubble's time
			g.flush(lane, batch)
			for _, r := range batch {
				if r.In < 0 {
					r.Err = boom
				}
			}
		}, &Options{Flushed: func(requests int, took time.Duration, err error) {
			reports = append(reports, report{requests, took, err})
		}})
		for _, batch := range [][]int{{1}, {-1, -2}, {-3, -5, 4}} {
			var chs []chan answer
			for _, in := range batch[:1] { // goes alone
				chs = append(chs, do(context.Background(), c, in))
			}
			<-g.started
			for _, in := range batch[1:] {
				chs = append(chs, do(context.Background(), c, in))
				synctest.Wait()
			}
			g.proceed <- struct{}{}
			if len(batch) > 1 {
				<-g.started
				g.proceed <- struct{}{}
			}
			for _, ch := range chs {
				<-ch
			}
			synctest.Wait()
		}
		idle(t, c)
		want := []report{
			{1, time.Second, nil},
			{1, time.Second, boom},
			{1, time.Second, boom},
			{1, time.Second, boom},
			{2, time.Second, nil}, // the second of the two succeeded
		}
		if len(reports) != len(want) {
			t.Fatalf("reported %v, want %v", reports, want)
		}
		for i := range want {
			if reports[i] != want[i] {
				t.Errorf("flush %d was reported as %v, want %v", i, reports[i], want[i])
			}
		}
	})
	t.Run("a flush that panics", func(t *testing.T) {
		var got error
		c := mustNew(t, func(int, []*Request[int, int]) { panic("boom") }, &Options{
			Flushed: func(_ int, _ time.Duration, err error) { got = err },
		})
		_, err := c.Do(context.Background(), 0, 1)
		c.Close()
		if err == nil || got != err {
			t.Errorf("reported %v, the caller got %v", got, err)
		}
	})
}
