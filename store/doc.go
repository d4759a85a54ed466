// Package store is the contract between brim and the places where buckets are kept, and the
// arithmetic that all of them share.
//
// Applications import package brim and one backend. This package is for authors of a backend or
// of a wrapper around one. It contains the types that both sides need ([Limit], [Bucket],
// [State]), the interface of a backend ([Store]), the rules of a bucket ([Record.Fill] and
// [Decide]), the validators that run before any backend is called ([Op.Validate], [Txn.Validate],
// [Bucket.Validate] and [ValidateKey]), and the errors.
//
// A backend written in Go stores a [Record] per key and calls [Record.Fill]. A backend that
// decides elsewhere, for instance in SQL, must compute the same bits: the same operations on
// IEEE 754 doubles in the same order. Package storetest tests both kinds.
//
// # Time
//
// Times are whole microseconds on the store's one clock. The time of a bucket never runs back:
// the time of a decision is the later of the clock and the bucket's last write. A stored time
// that is more than the store's MaxSkew ahead of the clock is wrong, and [Record.Fill] sets it
// to the clock.
//
// # The model
//
// The model is the leaky bucket as a meter; see Turner, "New directions in communications (or
// which way to the information age?)", IEEE Communications Magazine, October 1986.
package store
