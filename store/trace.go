package store

import "time"

// Trace holds functions that a backend calls to report work that its callers cannot see:
// commits that several callers share, and retries. Backends that combine callers take a Trace
// in their Options. Package observe makes a Trace from its hooks.
//
// A nil function is not called. The functions are called by any number of goroutines at once.
// The backend waits for them, so they must be quick, and they must not call the store. They
// never receive a key.
type Trace struct {
	// Flush is called after each flush, even if the flush found nothing to write.
	Flush func(Flush)
	// Retry is called before each retry of an attempt of which nothing was applied.
	Retry func(Retry)
}

// Flush is one commit or one combined statement, which answered one or more callers.
type Flush struct {
	Backend  string        // "bolt", "sqlite", "postgres", "redisstore", or a ledger
	Requests int           // callers who shared the flush
	Took     time.Duration // duration on this process's clock, without the wait before the flush
	Err      error         // the cause if no caller was answered, else nil
}

// Retry is an attempt of which nothing was applied and which the backend repeats.
type Retry struct {
	Backend string // "bolt", "sqlite", "postgres", "redisstore", or a ledger
	Attempt int    // number of the failed attempt, from 1
	Err     error  // the cause of the failure
}
