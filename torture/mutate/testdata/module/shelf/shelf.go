// Package shelf has one function for each kind of change.
package shelf

import "sync"

// Width is the width of a shelf.
const Width = 7

// Fits has a comparison and an addition.
func Fits(used, n, size int) bool { return used+n <= size }

// Open has operators that are not always evaluated on both sides.
func Open(key *int, day, hour int) bool { return key != nil && *key == day || hour > 12 }

// Least has a min and a constant.
func Least(a, b float64) float64 { return min(a, b, 2.5) }

// Count has loops, a statement that continues, and one that breaks.
func Count(words []string) (n int) {
	for i := 0; i < len(words); i++ {
		if words[i] == "" {
			continue
		}
		if words[i] == "." {
			break
		}
		n++
	}
	return n
}

// Shelf has a lock.
type Shelf struct {
	mu   sync.Mutex
	used int
}

// Put has a call that is deferred, a return that ends early, and assignments.
func (s *Shelf) Put(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used+n > Width {
		return false
	}
	s.used += n
	return true
}

// Positive has an equivalent mutant: adding zero changes nothing.
func Positive(numbers ...int) (sum int) {
	for _, n := range numbers {
		if n > 0 {
			sum += n
		}
	}
	return sum
}

// Unseen has no test in this package.
func Unseen(n int) int { return n * 3 }

// Idle has a test that asserts nothing.
func Idle(n int) int { return n % 3 }

// Once has a loop that two of its mutants never leave.
func Once() (n int) {
	for done := false; !done; {
		n += 2
		done = true
	}
	return n
}
