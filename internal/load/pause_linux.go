package load

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// newPause returns a function that stops the calling goroutine for a time. On Linux a timer of the
// runtime wakes up to a millisecond late, which is longer than most answers take, so the goroutine
// gets a thread of its own that sleeps in the kernel. The thread ends with the goroutine.
func newPause() func(time.Duration) {
	runtime.LockOSThread()
	// The kernel may delay a wake-up by this number of nanoseconds; the default is 50,000. If the
	// call fails, the default stays.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return func(d time.Duration) {
		t := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&t, nil) // a signal may end it early, and the schedule then pauses again
	}
}
