package history

import (
	"bytes"
	"runtime"
	"time"
)

// quiet waits until no store writes in the background, where a journal's changes go to the file. So
// the same history makes the same calls of the system in every run.
func quiet() {
	stacks := make([]byte, 1<<16)
	for busy(stacks[:runtime.Stack(stacks, true)]) {
		time.Sleep(20 * time.Microsecond)
	}
}

// busy reports whether one of these stacks is that of a store's goroutine that does not sleep.
func busy(stacks []byte) bool {
	background := []byte("github.com/brimgo/brim/internal/kv.(*DB).run(")
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		state, frames, _ := bytes.Cut(stack, []byte("\n"))
		asleep := bytes.Contains(state, []byte("[select")) && bytes.HasPrefix(frames, background)
		if bytes.Contains(frames, background) && !asleep {
			return true
		}
	}
	return false
}
