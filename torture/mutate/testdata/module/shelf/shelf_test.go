package shelf

import "testing"

func check[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFits(t *testing.T) {
	check(t, Fits(1, 2, 3), true)
	check(t, Fits(1, 3, 3), false)
	check(t, Fits(1, 1, 3), true)
}

func TestOpen(t *testing.T) {
	one := 1
	check(t, Open(nil, 1, 12), false)
	check(t, Open(nil, 1, 13), true)
	check(t, Open(&one, 1, 12), true)
	check(t, Open(&one, 2, 12), false)
	check(t, Open(&one, 1, 13), true)
	check(t, Open(&one, 2, 13), true)
}

func TestLeast(t *testing.T) {
	check(t, Least(1, 2), 1)
	check(t, Least(3, 4), 2.5)
}

func TestCount(t *testing.T) {
	check(t, Count([]string{"a", "", "b", ".", "c"}), 2)
	check(t, Count([]string{"a", "b"}), 2)
}

func TestShelf(t *testing.T) {
	var s Shelf
	check(t, s.Put(3), true)
	check(t, s.Put(4), true)
	check(t, s.Put(1), false)
	check(t, s.mu.TryLock(), true)
	check(t, s.used, Width)
	check(t, Width, 7)
}

func TestPositive(t *testing.T) { check(t, Positive(2, 0, -1, 1), 3) }

func TestIdle(t *testing.T) { Idle(2) }

func TestOnce(t *testing.T) { check(t, Once(), 2) }
