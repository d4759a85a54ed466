package serverload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/brimgo/brim/store"
)

// Kind is the kind of a [Call].
type Kind string

// Call is a piece of work of one caller: one step, or two of which the second needs the first. A
// step is applied wholly or not at all, in all of the call's places.
type Call struct {
	ID     string // unique
	Kind   Kind
	Places []Place
}

// Place is where a call leaves its mark: a bucket or an account, and the digit of the call in the
// levels of the bucket.
type Place struct {
	Key   string
	Digit int
}

func (c Call) String() string {
	places := make([]string, len(c.Places))
	for i, p := range c.Places {
		places[i] = fmt.Sprintf("%s/%d", p.Key, p.Digit)
	}
	return fmt.Sprintf("%s %s in %s", c.ID, c.Kind, strings.Join(places, ", "))
}

// Doubled is the stage of a call that was applied more than once, or in some of its places only.
const Doubled = -1

// Subject is a store that calls are made to.
type Subject interface {
	// Kinds returns the kinds of calls that the subject knows.
	Kinds() []Kind
	// Steps returns the number of steps of a kind.
	Steps(Kind) int
	// Do carries out a step, from 0.
	Do(ctx context.Context, c Call, step int) error
	// Look returns the number of steps of each call that have been applied, or [Doubled].
	Look(ctx context.Context, calls []Call) ([]int, error)
	// Once reports whether a step that is sent again has no second effect.
	Once() bool
}

// Script returns n random calls. Calls meet in as many places as keys says, until the digits of one
// are used up. All scripts use the same keys and IDs; see [Scoped].
func Script(r *rand.Rand, kinds []Kind, n, keys int) []Call {
	calls := make([]Call, n)
	generation, used := 0, make([]int, keys)
	for i := range calls {
		c := Call{ID: fmt.Sprintf("%04d", i), Kind: kinds[r.IntN(len(kinds))]}
		for _, k := range r.Perm(keys)[:min(keys, Width(c.Kind))] {
			c.Places = append(c.Places, Place{Key: fmt.Sprintf("%02d/%03d", generation, k), Digit: used[k]})
			used[k]++
		}
		if c.Kind != All { // a transaction that fills one bucket after another must keep an order
			slices.SortFunc(c.Places, func(a, b Place) int { return strings.Compare(a.Key, b.Key) })
		}
		calls[i] = c
		if slices.Max(used) == digits {
			generation++
			clear(used)
		}
	}
	return calls
}

// Scoped returns the calls with a prefix to their keys and IDs, so that they meet no others.
func Scoped(calls []Call, prefix string) []Call {
	list := slices.Clone(calls)
	for i := range list {
		c := &list[i]
		c.ID, c.Places = prefix+c.ID, slices.Clone(c.Places)
		for j := range c.Places {
			c.Places[j].Key = prefix + c.Places[j].Key
		}
	}
	return list
}

// Width returns the number of places of a call.
func Width(k Kind) int {
	switch k {
	case All, Update, With, Both, Joined:
		return 2
	}
	return 1
}

// Told is the meaning of an answer.
type Told int

// The meanings.
const (
	Applied Told = iota
	NotApplied
	Unknown
	Wrong // an answer that no store may give to a call of this load
)

// Meaning returns the meaning of the error of a step.
func Meaning(err error) Told {
	switch {
	case err == nil:
		return Applied
	case errors.Is(err, store.ErrUnknownOutcome):
		return Unknown
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded):
		return NotApplied
	}
	return Wrong
}

// errRefused is the answer to a step that did not fit, although all steps of a load do.
var errRefused = errors.New("refused, although it fits")

// accepted returns an error unless all states are accepted.
func accepted(err error, states ...store.State) error {
	for _, st := range states {
		if err == nil && !st.Accepted {
			err = errRefused
		}
	}
	return err
}
