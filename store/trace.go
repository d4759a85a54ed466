package store

import "time"

// Trace is told of what a backend does on its own account, which nobody who calls it can see: how many callers shared a
// commit, and what was tried again. Backends that combine callers take one in their Options. Nil functions are not called.
//
// The functions are called by any number of goroutines at once, and what comes next waits for them: they must be quick, and
// must not call the store. Neither is told a key. Package observe makes one of its hooks.
type Trace struct {
	// Flush is called after each round of work that callers shared: a commit or a combined statement, or the finding that
	// nothing has to be written.
	Flush func(Flush)
	// Retry is called before something is tried again, of which nothing was applied.
	Retry func(Retry)
}

// Flush is one round of work that answered callers.
type Flush struct {
	Backend  string        // "bolt", "postgres"
	Requests int           // callers who shared it
	Took     time.Duration // by this machine's clock, without the wait before it
	Err      error         // why none of them was answered; nil if one was
}

// Retry is an attempt of which nothing was applied, and that is followed by another.
type Retry struct {
	Backend string // "bolt", "postgres"
	Attempt int    // from 1
	Err     error  // why it failed
}
