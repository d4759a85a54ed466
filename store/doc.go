// Package store is the contract between brim and the places where buckets are kept, and the arithmetic that all of them
// share.
//
// Applications import package brim and one backend. This package is for those who write a backend or a wrapper around
// one: it holds the types that both sides need ([Limit], [Bucket], [State]), the interface that a backend fulfils
// ([Store]), what a bucket does when something is put into it ([Record.Fill] and [Decide]), the one validator that runs
// before any backend is called ([Op.Validate] and its like), and the errors.
//
// A backend that is written in Go keeps a [Record] per key and calls [Record.Fill]; one that decides elsewhere, in SQL for
// instance, must compute the same bits: the same operations on IEEE 754 doubles in the same order. Package storetest proves
// either.
//
// # Time
//
// Times are whole microseconds on the store's one clock. A bucket's time never runs back: a decision is dated
// max(time of the last write, clock). A stored time that is further ahead of the clock than the store's MaxSkew is not
// believed; see [Record.Fill].
//
// # The model
//
// The leaky bucket as a meter: Turner, "New directions in communications (or which way to the information age?)", IEEE
// Communications Magazine, October 1986.
package store
