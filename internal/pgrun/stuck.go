package pgrun

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// Pauses and times of [stuck].
const (
	firstPause = 2 * time.Millisecond  // before the first look at a stuck row
	lastPause  = 25 * time.Millisecond // between two looks; pauses double up to here
	lastBlind  = 100 * time.Millisecond
	// The shortest and the longest probation. Most rows that get stuck were held by another process
	// whose commit took long once, so the first probation is short. It doubles where the same row
	// gets stuck again.
	firstProbation = 25 * time.Millisecond
	lastProbation  = time.Second
	// remembered is how long a row that has left the set is remembered.
	remembered = 10 * lastProbation
)

// errStuck answers a request whose row another transaction holds. Nothing was applied. The
// caller's goroutine moves the request to the queue for stuck rows.
var errStuck = fmt.Errorf("%w: another transaction holds the row", store.ErrUnavailable)

// stuck is the set of rows that other transactions held for too long, with the requests that
// wait for them. Calls for these rows do not enter the combiner: one row would delay the calls
// for all others.
//
// A row enters the set when a flush stalls on it. It leaves when it has been free for the time
// of its probation, so that a lock that comes and goes does not stall a flush each time.
type stuck struct {
	// rows is nil where the set is empty, which is the usual case and costs a call one load. The
	// map is never changed: a copy replaces it.
	rows atomic.Pointer[map[string]*row]

	mu      sync.Mutex // guards the rows' fields, and the fields below
	waiters map[*waiter]struct{}
	left    map[string]leaver // rows that have left the set not long ago
	pause   time.Duration     // before the next look
	wake    chan struct{}     // gets a token when a waiter comes or the last one goes
	closed  context.Context
	close   context.CancelFunc
}

// row is the state of one stuck row.
type row struct {
	locked bool
	seen   bool      // a probe has found the row locked, or a statement for it alone has stalled
	since  time.Time // when it was last found free or, while it is locked, when somebody last waited
	// probation is how long the row must be free before it leaves the set.
	probation time.Duration
	// blind counts the statements for this row alone that stalled although the probe found the
	// row free: another transaction is inserting it. The row is tried again at the time in again.
	blind int
	again time.Time
}

// leaver is a row that has left the set.
type leaver struct {
	at        time.Time
	probation time.Duration
}

// waiter is a call that waits for stuck rows.
type waiter struct{ keys []string }

func newStuck() *stuck {
	s := &stuck{
		waiters: make(map[*waiter]struct{}), left: make(map[string]leaver),
		pause: firstPause, wake: make(chan struct{}, 1),
	}
	s.closed, s.close = context.WithCancel(context.Background())
	return s
}

// empty reports whether no row is in the set. A call asks this first, because it allocates the
// keys that has takes.
func (s *stuck) empty() bool { return s.rows.Load() == nil }

// has reports whether one of the keys is in the set.
func (s *stuck) has(keys iter.Seq[string]) bool {
	rows := s.all()
	for key := range keys {
		if rows[key] != nil {
			return true
		}
	}
	return false
}

// ready reports whether none of the rows is locked.
func (s *stuck) ready(keys iter.Seq[string]) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free(keys)
}

func (s *stuck) free(keys iter.Seq[string]) bool {
	rows := s.all()
	for key := range keys {
		if r := rows[key]; r != nil && r.locked {
			return false
		}
	}
	return true
}

func (s *stuck) all() map[string]*row {
	if rows := s.rows.Load(); rows != nil {
		return *rows
	}
	return nil
}

// held returns the rows that are locked.
func (s *stuck) held() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, r := range s.all() {
		if r.locked {
			names = append(names, name)
		}
	}
	return names
}

// change replaces the set by a copy that f has changed.
func (s *stuck) change(f func(map[string]*row)) {
	rows := maps.Clone(s.all())
	if rows == nil {
		rows = make(map[string]*row)
	}
	f(rows)
	if len(rows) == 0 {
		s.rows.Store(nil)
		return
	}
	s.rows.Store(&rows)
}

// of returns a row of the set, and puts it there if it is missing.
func (s *stuck) of(rows map[string]*row, key string, now time.Time) *row {
	r := rows[key]
	if r == nil {
		r = &row{since: now, probation: firstProbation}
		if l, ok := s.left[key]; ok && now.Sub(l.at) < remembered {
			r.probation = min(2*l.probation, lastProbation)
		}
		rows[key] = r
	}
	return r
}

// add puts rows into the set. locked says that a probe found them locked; else they are
// suspected only.
func (s *stuck) add(keys map[string]bool, locked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.change(func(rows map[string]*row) {
		for key := range keys {
			r := s.of(rows, key, now)
			if locked {
				r.locked, r.seen = true, true
			}
		}
	})
	s.pause = firstPause
}

// stalled notes that a statement for these rows alone stalled although a probe found them free.
func (s *stuck) stalled(keys iter.Seq[string]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.change(func(rows map[string]*row) {
		for key := range keys {
			r := s.of(rows, key, now)
			r.locked, r.seen, r.again = true, true, now.Add(min(lastBlind, firstPause<<min(r.blind, 8)))
			r.blind++
		}
	})
	s.pause = firstPause
}

// served notes that a statement for these rows did not stall. Rows that were never found locked
// leave the set.
func (s *stuck) served(keys iter.Seq[string]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	drop := false
	rows := s.all()
	for key := range keys {
		if r := rows[key]; r != nil {
			r.blind = 0
			drop = drop || !r.seen
		}
	}
	if drop {
		s.change(func(rows map[string]*row) {
			for key := range keys {
				if r := rows[key]; r != nil && !r.seen {
					delete(rows, key)
				}
			}
		})
	}
}

// enter adds a call that waits.
func (s *stuck) enter(keys []string) *waiter {
	w := &waiter{keys: keys}
	s.mu.Lock()
	s.waiters[w] = struct{}{}
	s.mu.Unlock()
	s.poke()
	return w
}

// leave removes a call that waits no more.
func (s *stuck) leave(w *waiter) {
	s.mu.Lock()
	delete(s.waiters, w)
	last := len(s.waiters) == 0
	s.mu.Unlock()
	if last {
		s.poke()
	}
}

func (s *stuck) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// wait waits, and reports whether a waiter came or the last one went meanwhile.
func (s *stuck) wait(d time.Duration) (woken bool) {
	if d <= 0 {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return false
	case <-s.wake:
		return true
	}
}

// next returns the rows to look at, and how long to wait before the look. ready says that there
// is a call to send, or nobody waits any more.
func (s *stuck) next() (keys []string, pause time.Duration, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := s.all()
	wanted := make(map[string]bool)
	for w := range s.waiters {
		locked := false
		for _, key := range w.keys {
			if r := rows[key]; r != nil && r.locked {
				locked = true
				if !wanted[key] {
					wanted[key] = true
					keys = append(keys, key)
				}
			}
		}
		if !locked {
			return nil, 0, true
		}
	}
	return keys, s.pause, len(s.waiters) == 0
}

// looked notes the result of a look: of the rows asked for, those in locked are locked.
func (s *stuck) looked(asked []string, locked map[string]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.pause = min(2*s.pause, lastPause)
	rows := s.all()
	for _, key := range asked {
		r := rows[key]
		if r == nil || locked[key] || now.Before(r.again) {
			continue
		}
		if r.locked {
			r.locked, r.since = false, now
			s.pause = firstPause
		}
	}
}

// sweep removes the rows whose probation is over, and those that nobody waits for any more.
func (s *stuck) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	wanted := make(map[string]bool)
	for w := range s.waiters {
		for _, key := range w.keys {
			wanted[key] = true
		}
	}
	gone := func(key string, r *row) bool {
		if r.locked {
			return !wanted[key] && now.Sub(r.since) > 10*lastProbation
		}
		return now.Sub(r.since) >= r.probation
	}
	rows := s.all()
	for key, r := range rows {
		if r.locked && wanted[key] {
			r.since = now
		}
		if gone(key, r) {
			s.release(gone, now)
			return
		}
	}
}

// release removes the rows that are gone from the set, and remembers those that somebody held.
func (s *stuck) release(gone func(string, *row) bool, now time.Time) {
	s.change(func(rows map[string]*row) {
		for key, r := range rows {
			if !gone(key, r) {
				continue
			}
			if r.seen {
				s.left[key] = leaver{now, r.probation}
			}
			delete(rows, key)
		}
	})
	maps.DeleteFunc(s.left, func(_ string, l leaver) bool { return now.Sub(l.at) >= remembered })
}
