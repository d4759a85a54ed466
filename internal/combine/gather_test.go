package combine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// TestGather counts the rounds of the scheduler in which a lane lets answered callers come back.
func TestGather(t *testing.T) {
	// On one thread, nearly each round runs every goroutine once.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const at = 1000 // requests that had come before
	for _, test := range []struct {
		name, why      string
		callers, every int // the callers that were answered; one of them comes back in so many rounds
		least, most    int // rounds
		back           int // callers that have come back in the end
	}{
		{
			name: "nobody was answered", why: "others may be about to queue",
			callers: 0, every: 1000, least: 1, most: yields + 3,
		},
		{
			name: "all come back", why: "the lane waits as long as more of them come, and not longer",
			callers: 20, every: patience - 4, least: 20 * (patience - 4), most: 20*(patience-4) + 8, back: 20,
		},
		{
			name: "one comes back", why: "the lane waits for the only caller, too",
			callers: 1, every: patience - 2, least: patience - 2, most: patience + 2, back: 1,
		},
		{
			name: "nobody comes back", why: "callers may have ended",
			callers: 3, every: 1000, least: patience - 2, most: yields + patience + 3,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := mustNew(t, func(int, []*Request[int, int]) {}, nil)
			c.came.Store(at)
			var rounds atomic.Int64
			var stop atomic.Bool
			var others sync.WaitGroup
			others.Go(func() {
				for !stop.Load() {
					if n := int(rounds.Add(1)); n%test.every == 0 && n/test.every <= test.callers {
						c.came.Add(1)
					}
					runtime.Gosched()
				}
			})
			c.gather(at, test.callers, patience)
			took := int(rounds.Load())
			stop.Store(true)
			others.Wait()
			if back := int(c.came.Load() - at); took < test.least || took > test.most || back != test.back {
				t.Errorf("%d callers were back after %d rounds; want %d after %d to %d; why: %s",
					back, took, test.back, test.least, test.most, test.why)
			}
		})
	}
}

// TestRounds sees how long a lane waits for the callers of a batch.
func TestRounds(t *testing.T) {
	const longer = 7 * patience
	for _, test := range []struct {
		name  string
		slots []uint32 // of the requests in the batch
		given int      // [Options.Patience]
		want  int
	}{
		{"no request", nil, longer, patience},
		{"one request", []uint32{3}, longer, patience},
		{"two requests of one slot", []uint32{3, 3}, longer, longer},
		{"three requests of one slot", []uint32{3, 3, 3}, longer, longer},
		{"two slots", []uint32{3, 4}, longer, patience},
		{"two slots, the first one once", []uint32{3, 4, 4}, longer, patience},
		{"two slots, the second one last", []uint32{3, 3, 4}, longer, patience},
		{"one slot, without a patience of its own", []uint32{3, 3}, 0, patience},
	} {
		c := mustNew(t, func(int, []*Request[int, int]) {}, &Options{Patience: test.given})
		l := c.lane()
		for _, slot := range test.slots {
			l.batch = append(l.batch, &Request[int, int]{slot: slot})
		}
		if got := l.rounds(); got != test.want {
			t.Errorf("%s: %d rounds, want %d", test.name, got, test.want)
		}
	}
}
