package storetest

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

// Options describe the abilities of a backend to [Run]. Every field may be left out. The suite
// then leaves out the parts that need it, and logs their names.
type Options struct {
	// OpenAt opens a new, empty store that reads its time from clock and believes stored times
	// up to [store.DefaultMaxSkew] ahead of it. The store may call clock from any number of
	// goroutines at once. Most parts of the suite move the clock; without OpenAt they are left
	// out, and the rest proves little.
	OpenAt func(t *testing.T, clock func() time.Time) store.Store

	// Reopen closes s, opens its data again and returns the new store. The new store reads
	// clock, or the backend's own clock if clock is nil. Leave Reopen nil if the data do not
	// survive Close.
	Reopen func(t *testing.T, s store.Store, clock func() time.Time) store.Store

	// Peer opens a second handle on the data of s, with the backend's own clock, as another
	// process would. Leave Peer nil if the data have a single owner; callers then race through
	// one handle.
	Peer func(t *testing.T, s store.Store) store.Store

	// Unsupported reports whether the backend answers op with [errors.ErrUnsupported]. The
	// suite then demands that error, and leaves out cases that need the operation. Nil means
	// that the backend supports every operation.
	Unsupported func(op store.Op) bool

	// Operations is the number of random operations that the suite compares with the model, on
	// inputs that no arithmetic rounds. A tenth as many more run on decimal inputs. Zero means
	// 6,000; 1,000,000 if the environment variable BRIM_TORTURE is 1; 2,000 with -short. The suite
	// asks about each operation before it makes it, so it makes twice as many calls.
	// Fewer than 5,000 are for -short, and for a further way into a backend whose usual way has a
	// run of its own: they also shorten the vectors to every tenth, and the long sequences to a
	// fifth.
	Operations int

	// Keys is the number of odd keys that the suite fills to check that no key touches another.
	// Zero means 4,000; 1,000,000 if BRIM_TORTURE is 1; 1,000 with -short.
	Keys int
}

// Run runs the conformance suite. Open opens a new, empty store with the backend's own clock.
// Run closes every store that it opens, and calls Close more than once. The options may be nil.
func Run(t *testing.T, open func(t *testing.T) store.Store, o *Options) {
	t.Helper()
	s := newSuite(open, o)
	for _, part := range parts {
		if lacks := part.lacks(&s.o); lacks != "" {
			t.Logf("%s is left out because it needs Options.%s", part.name, lacks)
			continue
		}
		t.Run(part.name, func(t *testing.T) { part.run(s, t) })
	}
}

// part is one subject of the suite.
type part struct {
	name  string
	needs need
	run   func(*suite, *testing.T)
}

// need is a set of options that a part needs.
type need uint8

const (
	openAt need = 1 << iota
	reopen
	peer
)

// lacks returns the name of the first option that the part needs and o leaves out, or "".
func (p part) lacks(o *Options) string {
	switch {
	case p.needs&openAt != 0 && o.OpenAt == nil:
		return "OpenAt"
	case p.needs&reopen != 0 && o.Reopen == nil:
		return "Reopen"
	case p.needs&peer != 0 && o.Peer == nil:
		return "Peer"
	}
	return ""
}

var parts = []part{
	{"vectors", openAt, (*suite).vectors},
	{"cases", openAt, (*suite).cases},
	{"waits", openAt, (*suite).waits},
	{"real clock", 0, (*suite).realClock},
	{"keys", 0, (*suite).keys},
	{"visit", 0, (*suite).visit},
	{"prune", openAt, (*suite).prune},
	{"failing requests", 0, (*suite).failing},
	{"unsupported", 0, (*suite).unsupported},
	{"races", 0, (*suite).races},
	{"races through two handles", peer, (*suite).peerRaces},
	{"waiters", openAt, (*suite).waiters},
	{"slow clock", openAt, (*suite).slowClock},
	{"contexts", 0, (*suite).contexts},
	{"closing", 0, (*suite).closing},
	{"closing in flight", reopen, (*suite).closingInFlight},
	{"restart", openAt | reopen, (*suite).restart},
	{"restart on the real clock", reopen, (*suite).restartReal},
	{"model", openAt, (*suite).modelDyadic},
	{"model of decimals", openAt, (*suite).modelDecimal},
}

// suite is one run of the suite.
type suite struct {
	openReal func(t *testing.T) store.Store
	o        Options
	// patience is the time after which a group of racing calls counts as deadlocked. No injected
	// clock can tell: calls that wait for a lock of the store read none.
	patience time.Duration
}

func newSuite(open func(t *testing.T) store.Store, o *Options) *suite {
	s := &suite{openReal: open, patience: time.Minute}
	if o != nil {
		s.o = *o
	}
	s.o.Operations = defaulted(s.o.Operations, 2_000, 6_000, 1_000_000)
	s.o.Keys = defaulted(s.o.Keys, 1_000, 4_000, 1_000_000)
	return s
}

// few reports whether the run is a short one.
func (s *suite) few() bool { return s.o.Operations < 5000 }

// defaulted returns n if it is set, or else the number for this kind of run.
func defaulted(n, short, usual, torture int) int {
	switch {
	case n > 0:
		return n
	case os.Getenv("BRIM_TORTURE") == "1":
		return torture
	case testing.Short():
		return short
	}
	return usual
}

// real opens a store with its own clock and closes it when t ends.
func (s *suite) real(t *testing.T) store.Store {
	t.Helper()
	return *s.reopenable(t, nil)
}

// at opens a store that reads the returned clock, and closes it when t ends.
func (s *suite) at(t *testing.T) (store.Store, *manualClock) {
	t.Helper()
	clock := newClock()
	return *s.reopenable(t, clock.now), clock
}

// reopenable opens a store that reads clock, or has its own clock if clock is nil. It closes the
// store to which the result points when t ends, so that a test may replace it by a reopened store.
func (s *suite) reopenable(t *testing.T, clock func() time.Time) *store.Store {
	t.Helper()
	var st store.Store
	if clock == nil {
		st = s.openReal(t)
	} else {
		st = s.o.OpenAt(t, clock)
	}
	s.closeAtEnd(t, &st)
	return &st
}

// closeAtEnd closes the store that st points to when t ends.
func (s *suite) closeAtEnd(t *testing.T, st *store.Store) {
	t.Helper()
	t.Cleanup(func() {
		s.crowd(t, "Close at the end of the test", 1, func(context.Context, int) error { return (*st).Close() })
	})
}

// supports reports whether the backend supports all of the operations.
func (s *suite) supports(ops ...store.Op) bool {
	if s.o.Unsupported == nil {
		return true
	}
	for _, op := range ops {
		if s.o.Unsupported(op) {
			return false
		}
	}
	return true
}

// start is the first reading of injected clocks, in microseconds: 1 January 2026.
const start = 1_767_225_600_000_000

// manualClock is a clock that stands still until the suite moves it. Any number of goroutines
// may read it at once.
type manualClock struct{ us atomic.Int64 }

func newClock() *manualClock {
	c := &manualClock{}
	c.us.Store(start)
	return c
}

func (c *manualClock) now() time.Time       { return time.UnixMicro(c.us.Load()) }
func (c *manualClock) step(d time.Duration) { c.us.Add(d.Microseconds()) }
func (c *manualClock) set(us int64)         { c.us.Store(us) }
