package turn

import (
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"
)

// Point lets another goroutine have the turn, unless the caller holds a mutex.
func Point(site string) {
	if s := now; s != nil && !s.quiet && s.current.depth == 0 {
		s.park(s.current, ready, site)
	}
}

// At is [Point] in front of an operation on x.
func At[T any](site string, x *T) *T {
	Point(site)
	return x
}

// Quiet has points do nothing until it is called with false.
func Quiet(quiet bool) { now.quiet = quiet }

// Current returns the number of the goroutine that has the turn.
func Current() int { return now.current.id }

// Since returns the time since the schedule began.
func Since() time.Duration { return time.Since(now.start) }

// Watch has f called at every [Mark], and when a goroutine without a mutex locks one.
func Watch(f func(site string)) { now.watch = f }

// Mark tells the function of [Watch] that the goroutine that has the turn is at a site.
func Mark(site string) {
	if s := now; s != nil && s.watch != nil {
		s.watch(site)
	}
}

// Lock is m.Lock. There are no points until the matching [Unlock], so nobody else holds m.
func Lock(site string, m sync.Locker) {
	Point(site)
	m.Lock()
	locked(site)
}

func locked(site string) {
	if s := now; s != nil {
		if s.current.depth == 0 {
			Mark(site)
		}
		s.current.depth++
	}
}

// TryLock is m.TryLock.
func TryLock(site string, m *sync.Mutex) bool {
	Point(site)
	ok := m.TryLock()
	if ok {
		locked(site)
	}
	return ok
}

// Unlock is m.Unlock.
func Unlock(site string, m sync.Locker) {
	m.Unlock()
	if s := now; s != nil {
		s.current.depth--
		Point(site)
	}
}

// wait waits until another goroutine calls free with the same x.
func (s *Schedule) wait(site string, x any) {
	g := s.current
	g.on = x
	s.park(g, waiting, site)
}

// free lets the goroutines go on that wait for x.
func (s *Schedule) free(x any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.all {
		if g.state == waiting && g.on == x {
			g.state, g.on = ready, nil
		}
	}
}

// Mutex takes the place of a sync.Mutex that is held during long calls. Points lie under it, and a
// goroutine that waits for it lets others have the turn.
type Mutex struct {
	mu   sync.Mutex // outside of schedules
	held bool
}

// Lock locks m.
func (m *Mutex) Lock(site string) {
	s := now
	if s == nil {
		m.mu.Lock()
		return
	}
	Point(site)
	for m.held {
		s.wait(site, m)
	}
	m.held = true
}

// Unlock unlocks m.
func (m *Mutex) Unlock(site string) {
	s := now
	if s == nil {
		m.mu.Unlock()
		return
	}
	if !m.held {
		panic("turn: " + site + " unlocks a mutex that nobody holds")
	}
	m.held = false
	s.free(m)
	Point(site)
}

// Once takes the place of a sync.Once, whose mutex would be held over points.
type Once struct {
	mu   Mutex
	done bool
}

// Do calls f if no call of Do came before.
func (o *Once) Do(site string, f func()) {
	o.mu.Lock(site)
	defer o.mu.Unlock(site)
	if !o.done {
		defer func() { o.done = true }()
		f()
	}
}

// CondWait is c.Wait.
func CondWait(site string, c *sync.Cond) {
	s := now
	if s == nil {
		c.Wait()
		return
	}
	c.L.Unlock()
	s.current.depth--
	s.wait(site, c)
	c.L.Lock()
	locked(site)
}

// Broadcast is c.Broadcast.
func Broadcast(c *sync.Cond) {
	c.Broadcast()
	if s := now; s != nil {
		s.free(c)
	}
}

// Hash takes the place of maphash.String, which differs from run to run.
func Hash(key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return h.Sum64()
}

// Sorted returns the elements of a map in order of key, at the time of the call.
func Sorted[V any](m map[string]V) iter.Seq2[string, V] {
	keys := slices.Sorted(maps.Keys(m))
	return func(yield func(string, V) bool) {
		for _, key := range keys {
			if v, ok := m[key]; ok && !yield(key, v) {
				return
			}
		}
	}
}
