package pgrun

import (
	"fmt"
	"iter"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brimgo/brim/store"
)

// ErrHeld is the Err of a request that a flush leaves out because another transaction holds a row of
// it. Nothing was applied. The caller's goroutine moves the request to the slow lane.
var ErrHeld = fmt.Errorf("%w: another transaction holds the row", store.ErrUnavailable)

// The shortest and the longest probation. Most held rows were held by another process whose commit
// took long once, so the first probation is short. It doubles where the same row is held again after
// it, so that a lock that comes and goes does not stall a flush each time.
const (
	firstProbation = 25 * time.Millisecond
	lastProbation  = time.Second
	// remembered is how long a row is remembered after a flush last looked at it.
	remembered = 10 * lastProbation
)

// held remembers the rows that other transactions held. Calls for such a row use the slow lane until
// that has found the row free, and for a probation afterwards. Any number of goroutines may
// use held at once.
type held struct {
	until atomic.Int64 // when the last row is forgotten, in Unix nanoseconds; costs a call one load

	mu   sync.Mutex
	rows map[string]sighting
}

// sighting tells how a flush has last found a row.
type sighting struct {
	at        time.Time
	as        holding
	last      holding       // before the row was free
	probation time.Duration // after at, if the row was free
}

// holding is how other transactions hold the rows of a request.
type holding uint8

const (
	free      holding = iota
	suspected         // for a moment, for all that is known: the slow lane waits for the row first
	locked            // for longer: the slow lane leaves the row out
	inserting         // a statement that makes the row waits, and no statement sees it
)

// any reports whether a row is remembered.
func (h *held) any() bool {
	until := h.until.Load()
	return until != 0 && until > time.Now().UnixNano()
}

// slow reports how calls for the row use the slow lane: as for a row that is held, or not at all.
func (s sighting) slow() holding {
	switch since := time.Since(s.at); {
	case s.as != free && since < remembered:
		return s.as
	case s.as == free && since < s.probation:
		return s.last
	}
	return free
}

// of reports how requests with these names use the slow lane.
func (h *held) of(names iter.Seq[string]) (as holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range names {
		as = max(as, h.rows[name].slow())
	}
	return as
}

// list returns the names of the rows whose calls use the slow lane.
func (h *held) list() (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, s := range h.rows {
		if s.slow() != free {
			names = append(names, name)
		}
	}
	return names
}

// found notes rows that are held.
func (h *held) found(names iter.Seq[string], as holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(h.rows, func(_ string, s sighting) bool { return now.Sub(s.at) > remembered })
	for name := range names {
		s, known := h.rows[name]
		switch {
		case !known:
			s.probation = firstProbation
		case s.as == free && now.Sub(s.at) >= s.probation:
			s.probation = min(2*s.probation, lastProbation)
		}
		if as > suspected || s.as == free {
			s.as, s.last = as, as
		}
		s.at = now
		h.rows[name] = s
		h.until.Store(now.Add(remembered).UnixNano())
	}
}

// served notes rows that a statement has found free.
func (h *held) served(names iter.Seq[string]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range names {
		if s, known := h.rows[name]; known && s.as != free {
			s.at, s.as = time.Now(), free
			h.rows[name] = s
		}
	}
}
