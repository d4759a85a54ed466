// Package uiapi describes the answers that a page of package ui gives to a program, and asks for
// them as a client.
package uiapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/brimgo/brim/store"
)

// The paths below the address of the page.
const (
	ListPath     = "api/list"     // GET ?prefix: a Listing, then an Entry for each bucket, the fullest first, line by line
	RefusedPath  = "api/refused"  // GET ?prefix: a list of Refused, those refused most in the last minute first
	StatePath    = "api/state"    // GET ?key, and ?capacity and ?leak_rate for another limit: an Entry
	FindingsPath = "api/findings" // GET: a list of store.Finding
	TokenPath    = "api/token"    // GET ?act and ?key: a Token
	ChangePath   = "api/change"   // POST a Change with a token: an Entry, the state after the change
	ExplainPath  = "api/explain"  // GET ?budget and ?id: an explanation, as "brim spend explain --json" prints it
	BacktestPath = "api/backtest" // POST a Backtest: the first flips and a summary, as "brim spend backtest --json" prints them
)

// MinToken is the length of the shortest token that a page asks for: 64 bits in hexadecimal digits.
const MinToken = 16

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
	Empties      time.Time `json:"empties,omitzero"` // end of the period of a quota of the calendar
	BlockedUntil time.Time `json:"blocked_until,omitzero"`
}

// NewEntry returns the entry of a bucket.
func NewEntry(key string, st store.State) Entry {
	return Entry{
		Key: key, Level: st.Level, Held: st.Held, Capacity: st.Capacity, LeakRate: st.LeakRate, At: st.At.UTC(),
		Empties: st.Empties, BlockedUntil: st.BlockedUntil,
	}
}

// State returns the state of the bucket.
func (e Entry) State() store.State {
	return store.State{
		Level: e.Level, Held: e.Held, Capacity: e.Capacity, LeakRate: e.LeakRate, At: e.At,
		Empties: e.Empties, BlockedUntil: e.BlockedUntil,
	}
}

// Refused is a bucket with refusals during the last ten minutes.
type Refused struct {
	Key          string    `json:"key"`            // as the page shows it
	Rate         float64   `json:"rate"`           // refusals a second, of the last minute
	Refused      uint64    `json:"refused"`        // of the last ten minutes
	Since        time.Time `json:"since,omitzero"` // of refusals without a pause of half a minute; missing if longer than ten minutes
	Last         time.Time `json:"last"`           // the second of the latest refusal
	BlockedUntil time.Time `json:"blocked_until,omitzero"`
}

// Token is a token for one change of one bucket.
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

// Change is a change of a bucket.
type Change struct {
	Act    string  `json:"act"`
	Key    string  `json:"key"`              // as the page shows it
	Micros int64   `json:"micros,omitempty"` // of a Block; -1 until the bucket is empty
	Amount float64 `json:"amount,omitempty"` // of a Drain, in units
	Reason string  `json:"reason"`
}

// maxReason is the most bytes of a reason: 200 characters of up to 4 bytes, and some to spare.
const maxReason = 1000

// ErrReason reports a change without a reason, or with one that is too long.
var ErrReason = errors.New("a change needs a reason of at most 200 characters")

// Validate returns an error that tells why a change cannot be. The page and the
// address for programs obey the same rules.
func (c Change) Validate() error {
	if c.Reason == "" || len(c.Reason) > maxReason {
		return ErrReason
	}
	switch c.Act {
	case Reset, Unblock:
	case Block:
		if c.Micros < 1 && c.Micros != -1 {
			return fmt.Errorf("%w: the time of a block must be positive, like 90s, 15m, 24h or 30d, or until-empty", store.ErrInvalidLimit)
		}
	case Drain:
		if !(c.Amount > 0 && c.Amount <= store.MaxAmount) {
			return fmt.Errorf("%w: the units must be a positive number of at most 2^53", store.ErrInvalidAmount)
		}
	default:
		return fmt.Errorf("%w: a bucket can be reset, blocked, unblocked and drained", errors.ErrUnsupported)
	}
	return nil
}

// BlockFor returns the duration of a Block.
func (c Change) BlockFor() time.Duration {
	if c.Micros < 0 {
		return store.UntilEmpty
	}
	if c.Micros >= store.Never.Microseconds() {
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

// Backtest asks for the decisions on one account by other rules.
type Backtest struct {
	Budget  string          `json:"budget"`
	Account string          `json:"account"`
	Since   float64         `json:"since"` // seconds before now
	Rules   json.RawMessage `json:"rules"` // the budget with the other rules
}

// longest is the longest time that a Backtest may go back, in seconds.
const longest = 100 * 365 * 24 * 3600

// Validate returns an error that tells why a backtest cannot be.
func (b *Backtest) Validate() error {
	switch {
	case b.Account == "":
		return errors.New("a backtest needs an account")
	case !(b.Since > 0 && b.Since <= longest):
		return errors.New("a backtest needs a time before now, like 24h or 30d, and at most a hundred years")
	}
	return nil
}

// Problem is an answer with an error, as RFC 9457 describes it.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Kind   string `json:"kind,omitempty"` // names an error of package store, ErrReason or ErrOnlyLook
}

// kinds are the errors that a Problem names.
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
	{"misconfigured", store.ErrMisconfigured},
	{"full", store.ErrFull},
	{"unsupported", errors.ErrUnsupported},
	{"reason", ErrReason},
	{"only look", ErrOnlyLook},
}

// KindOf names the error that err is, or returns "".
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
