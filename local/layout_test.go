package local

import (
	"math/bits"
	"testing"
	"unsafe"
)

// TestLayout checks that a lookup reads few cache lines.
func TestLayout(t *testing.T) {
	if bits.UintSize != 64 {
		t.Skip("the layout is made for pointers of 64 bits")
	}
	if n := unsafe.Sizeof(cacheSet{}); n != 128 {
		t.Errorf("a cacheSet has %d bytes, want two cache lines of 64", n)
	}
	if n := unsafe.Sizeof(entry[snapshot]{}); n != 192 {
		t.Errorf("an entry of a snapshot has %d bytes, want three cache lines of 64", n)
	}
	if n := unsafe.Offsetof(entry[snapshot]{}.v) + unsafe.Offsetof(snapshot{}.amount); n > 128 {
		t.Errorf("the fields that each refusal reads end at byte %d, want 128 at most", n)
	}
}
