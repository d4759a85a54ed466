package invariant

import "testing"

func panics(fn func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	fn()
	return false
}

func TestLock(t *testing.T) {
	const first, second Rank = 1, 2
	a, b := new(int), new(int)
	for _, test := range []struct {
		name string
		fn   func()
		want bool
	}{
		{"in order", func() { Lock(a, first); Lock(a, second); Unlock(a, first); Unlock(a, second) }, false},
		{"of two owners", func() { Lock(a, second); Lock(b, first); Unlock(b, first); Unlock(a, second) }, false},
		{"again", func() { Lock(a, first); defer Unlock(a, first); Lock(a, first) }, true},
		{"out of order", func() { Lock(a, second); defer Unlock(a, second); Lock(a, first) }, true},
		{"released twice", func() { Lock(a, first); Unlock(a, first); Unlock(a, first) }, true},
	} {
		if got := panics(test.fn); got != (test.want && On) {
			t.Errorf("%s: panicked %v, want %v", test.name, got, test.want && On)
		}
	}
}

func TestAssert(t *testing.T) {
	if panics(func() { Assert(true, "") }) || panics(func() { Assert(false, "") }) != On {
		t.Error("Assert does not panic for false alone, or not in this build alone")
	}
}
