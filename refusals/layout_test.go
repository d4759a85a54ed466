package refusals

import (
	"testing"
	"unsafe"
)

// TestLayout keeps what a refusal reads in few cache lines.
func TestLayout(t *testing.T) {
	if n := unsafe.Sizeof(set{}); n != 128 {
		t.Errorf("a set has %d bytes, want two cache lines", n)
	}
	if n := unsafe.Sizeof(entry{}); n != 192 {
		t.Errorf("an entry has %d bytes, want three cache lines", n)
	}
	if n := unsafe.Offsetof(entry{}.got); n > 128 {
		t.Errorf("what a refusal reads ends at byte %d, want 128 at most", n)
	}
}
