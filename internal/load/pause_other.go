//go:build !linux

package load

import "time"

// newPause returns a function that stops the calling goroutine for a time.
func newPause() func(time.Duration) { return time.Sleep }
