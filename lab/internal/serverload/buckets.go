package serverload

import (
	"context"

	"github.com/brimgo/brim/store"
)

// The calls of [Buckets].
const (
	Try     Kind = "try"     // TryFillup
	Fillup  Kind = "fillup"  // Fillup
	Drain   Kind = "drain"   // TryFillup, then Drain
	Capture Kind = "capture" // Hold, then Capture
	Release Kind = "release" // Hold, then Release
	All     Kind = "all"     // TryFillupAll of two buckets
	Update  Kind = "update"  // two fills in one Update
	With    Kind = "with"    // two fills in a transaction of the caller's
)

// mark is the digit of a call in the level and in the held units of a bucket.
type mark struct{ level, held int }

// marks holds the marks of each kind of call after 0, 1 and 2 steps. A second step takes one unit of
// the five of the first. So a step that is applied up to three times never empties a bucket, never
// reaches into the next digit, and never leaves the mark of a sound call.
var marks = map[Kind][]mark{
	Try:     {{}, {1, 0}},
	Fillup:  {{}, {1, 0}},
	Drain:   {{}, {5, 0}, {4, 0}},
	Capture: {{}, {0, 5}, {1, 4}},
	Release: {{}, {0, 5}, {0, 4}},
	All:     {{}, {1, 0}},
	Update:  {{}, {1, 0}},
	With:    {{}, {1, 0}},
}

const (
	bits   = 4
	base   = 1 << bits
	digits = 9 // a level of so many digits is an exact float64
)

// limit holds all digits and does not leak.
var limit = store.Limit{Capacity: 1 << 36}

// Buckets is the subject of any store.
type Buckets struct {
	store.Store
	// Sound is a store that looks at what is there. It is Store, unless Store has a defect or is
	// under attack.
	Sound store.Store
	// Single leaves out the calls for two buckets, for a cluster where their keys share no hash
	// tag.
	Single bool
}

// Kinds returns the kinds that every store knows.
func (b *Buckets) Kinds() []Kind {
	kinds := []Kind{Try, Try, Fillup, Drain, Capture, Release}
	if !b.Single {
		kinds = append(kinds, All)
	}
	return kinds
}

// Steps returns the number of steps of a kind.
func (b *Buckets) Steps(k Kind) int { return len(marks[k]) - 1 }

// Once reports false: a fill that is sent again goes in again.
func (b *Buckets) Once() bool { return false }

// ops returns the operations of a step, one for each place.
func ops(c Call, step int) []store.Op {
	from, to := marks[c.Kind][step], marks[c.Kind][step+1]
	list := make([]store.Op, len(c.Places))
	for i, p := range c.Places {
		unit := 1.0
		for range p.Digit {
			unit *= base
		}
		list[i] = store.Op{
			Bucket: limit.For(p.Key), Amount: float64(to.level-from.level) * unit, Hold: float64(to.held-from.held) * unit,
		}
		switch {
		case c.Kind == Fillup:
			list[i].Mode = store.Clamp
		case step == 1:
			list[i].Mode = store.Always
		}
	}
	return list
}

// Do carries out a step.
func (b *Buckets) Do(ctx context.Context, c Call, step int) error {
	list := ops(c, step)
	if c.Kind == All {
		results, err := b.Apply(ctx, list)
		if err != nil {
			return err
		}
		return accepted(results[0].Err, results[0].States...)
	}
	return fillEach(ctx, b, list)
}

// fillEach carries out operations one after the other.
func fillEach(ctx context.Context, s store.Store, list []store.Op) error {
	for _, op := range list {
		st, err := s.Fill(ctx, op)
		if err = accepted(err, st); err != nil {
			return err
		}
	}
	return nil
}

// Look reads the buckets.
func (b *Buckets) Look(ctx context.Context, calls []Call) ([]int, error) {
	numbers := make(map[string]int)
	var buckets []store.Bucket
	for _, c := range calls {
		for _, p := range c.Places {
			if _, ok := numbers[p.Key]; !ok {
				numbers[p.Key] = len(buckets)
				buckets = append(buckets, limit.For(p.Key))
			}
		}
	}
	states, err := b.Sound.Read(ctx, buckets...)
	if err != nil {
		return nil, err
	}
	stages := make([]int, len(calls))
	for i, c := range calls {
		for n, p := range c.Places {
			st := states[numbers[p.Key]]
			stage := stageOf(c.Kind, mark{digit(st.Level, p.Digit), digit(st.Held, p.Digit)})
			if n > 0 && stage != stages[i] {
				stage = Doubled
			}
			stages[i] = stage
		}
	}
	return stages, nil
}

// digit returns a digit of a level.
func digit(level float64, n int) int { return int(uint64(level) >> (bits * n) % base) }

func stageOf(k Kind, found mark) int {
	for stage, m := range marks[k] {
		if m == found {
			return stage
		}
	}
	return Doubled
}
