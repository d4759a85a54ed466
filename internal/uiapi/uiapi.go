// Package uiapi describes the answers that a page of package ui gives to a program, and asks for
// them as a client.
package uiapi

import (
	"errors"
	"math"
	"time"

	"github.com/brimgo/brim/store"
)

// The paths below the address of the page.
const (
	ListPath     = "api/list"     // GET ?prefix: a Listing, then an Entry for each bucket, line by line
	StatePath    = "api/state"    // GET ?key, and ?capacity and ?leak_rate for another limit: an Entry
	FindingsPath = "api/findings" // GET: a list of store.Finding
	TokenPath    = "api/token"    // GET: a Token
	ChangePath   = "api/change"   // POST a Change with a token: an Entry, the state after the change
)

// TokenField is the header field of the token that a POST needs.
const TokenField = "Brim-Token"

// Listing tells how old and how complete the entries are that follow it.
type Listing struct {
	At      time.Time `json:"at"`      // when the listing began, by the clock of the page
	Age     float64   `json:"age"`     // seconds since then
	Took    float64   `json:"took"`    // seconds
	Buckets int64     `json:"buckets"` // in the store
	Listed  int64     `json:"listed"`  // the fullest of them, which the page knows by key
	Damaged bool      `json:"damaged"` // buckets that cannot be read are missing
}

// Entry is a bucket.
type Entry struct {
	Key          string    `json:"key"` // as the page shows it
	Level        float64   `json:"level"`
	Held         float64   `json:"held"`
	Capacity     float64   `json:"capacity"`
	LeakRate     float64   `json:"leak_rate"`
	At           time.Time `json:"at"`
	BlockedUntil time.Time `json:"blocked_until,omitzero"`
}

// NewEntry returns the entry of a bucket.
func NewEntry(key string, st store.State) Entry {
	return Entry{
		Key: key, Level: st.Level, Held: st.Held, Capacity: st.Capacity, LeakRate: st.LeakRate, At: st.At.UTC(),
		BlockedUntil: st.BlockedUntil,
	}
}

// State returns the state of the bucket.
func (e Entry) State() store.State {
	return store.State{
		Level: e.Level, Held: e.Held, Capacity: e.Capacity, LeakRate: e.LeakRate, At: e.At, BlockedUntil: e.BlockedUntil,
	}
}

// Token is a token for one change.
type Token struct {
	Token string `json:"token"`
}

// Acts that a Change names.
const (
	Reset   = "reset"
	Block   = "block"
	Unblock = "unblock"
	Drain   = "drain"
)

// Change is a change of buckets.
type Change struct {
	Act    string   `json:"act"`
	Keys   []string `json:"keys"`             // as the page shows them; several for Reset only
	Micros int64    `json:"micros,omitempty"` // of a Block; -1 until the bucket is empty
	Amount float64  `json:"amount,omitempty"` // of a Drain, in units
	// Capacity and LeakRate are the limit of a Block; 0 stands for the limit last written.
	Capacity float64 `json:"capacity,omitempty"`
	LeakRate float64 `json:"leak_rate,omitempty"`
	Reason   string  `json:"reason,omitempty"`
}

// BlockFor returns the duration of a Block.
func (c Change) BlockFor() time.Duration {
	if c.Micros < 0 {
		return store.UntilEmpty
	}
	if c.Micros > math.MaxInt64/1000 {
		return store.Never
	}
	return time.Duration(c.Micros) * time.Microsecond
}

// SetBlockFor sets the duration of a Block.
func (c *Change) SetBlockFor(d time.Duration) {
	if c.Micros = d.Microseconds(); d == store.UntilEmpty {
		c.Micros = -1
	}
}

// Problem is an answer with an error, as RFC 9457 describes it.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Kind   string `json:"kind,omitempty"` // names an error of package store
}

// kinds are the errors of package store that a Problem names.
var kinds = []struct {
	name string
	err  error
}{
	{"unknown outcome", store.ErrUnknownOutcome}, // first: it may wrap others
	{"invalid key", store.ErrInvalidKey},
	{"invalid amount", store.ErrInvalidAmount},
	{"invalid limit", store.ErrInvalidLimit},
	{"closed", store.ErrClosed},
	{"corrupt", store.ErrCorrupt},
	{"unavailable", store.ErrUnavailable},
	{"unsupported", errors.ErrUnsupported},
}

// KindOf names the error of package store that err is, or returns "".
func KindOf(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return ""
}

// errorOf returns the error that a kind names, or nil.
func errorOf(kind string) error {
	for _, k := range kinds {
		if k.name == kind {
			return k.err
		}
	}
	return nil
}
