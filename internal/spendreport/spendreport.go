// Package spendreport has the forms in which the command line and the page of package ui tell of
// spends.
package spendreport

import (
	"github.com/brimgo/brim/internal/humanize"
	"github.com/brimgo/brim/spend"
)

// Decision is the JSON form of a decision.
type Decision struct {
	ID string `json:"id"`
	spend.Decision
	Declines   []Decline `json:"declines"`
	RetryAfter *float64  `json:"retry_after"` // seconds; null if it can never fit
}

// Decline is the JSON form of a rule that refused.
type Decline struct {
	spend.Decline
	RetryAfter *float64 `json:"retry_after"`
}

// NewDecision returns the form of the answer to a request.
func NewDecision(id string, d spend.Decision) Decision {
	out := Decision{ID: id, Decision: d, Declines: []Decline{}, RetryAfter: humanize.SecondsOrNull(d.RetryAfter)}
	for _, x := range d.Declines {
		out.Declines = append(out.Declines, Decline{x, humanize.SecondsOrNull(x.RetryAfter)})
	}
	return out
}

// Explanation is the JSON form of an explanation.
type Explanation struct {
	spend.Explanation
	Decision Decision `json:"decision"`
}

// NewExplanation returns the form of an explanation.
func NewExplanation(x spend.Explanation) Explanation {
	return Explanation{x, NewDecision(x.ID, x.Decision)}
}

// Entry is the JSON form of an entry.
type Entry struct {
	spend.Entry
	TTL float64 `json:"ttl,omitzero"` // seconds
}

// NewEntry returns the form of an entry.
func NewEntry(e spend.Entry) Entry { return Entry{e, e.TTL.Seconds()} }
