// Package user uses shelf.
package user

import (
	"testing"

	"example.com/shelf/shelf"
)

func TestUnseen(t *testing.T) {
	if shelf.Unseen(2) != 6 {
		t.Error("3 times 2 is 6")
	}
}
