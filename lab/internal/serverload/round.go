package serverload

import (
	"context"
	"time"

	"github.com/brimgo/brim/lab/internal/attack"
)

// Round is a load with an attack amid it. The system's scheduler decides which calls it hits.
type Round struct {
	Name    string
	Calls   []Call // as of [Script]
	Callers int
	At      float64 // the part of the calls that are answered before the attack
	Pause   time.Duration
	Retry   bool                     // see [Load]
	Attack  func(calls []Call) error // with the keys of this run
}

// Run carries the round out. scope returns a prefix of keys and IDs that nothing else has.
func (rd Round) Run(ctx context.Context, s Subject, scope func() string) (*Result, *Finding, error) {
	calls := Scoped(rd.Calls, scope())
	load := Load{Calls: calls, Callers: rd.Callers, Retry: rd.Retry, At: int(rd.At * float64(len(calls)))}
	load.Attack = func() error {
		time.Sleep(rd.Pause)
		return rd.Attack(calls)
	}
	res, err := load.Run(ctx, s)
	if err != nil {
		return res, nil, err
	}
	f, err := Check(ctx, s, calls, res)
	return res, f, err
}

// Smallest looks for a part of the round's calls that fails as f, too, in at most so many tries.
// The scheduler has a part in every failure, so each part is run up to three times.
func (rd Round) Smallest(ctx context.Context, s Subject, scope func() string, f *Finding, tries int) (Round, *Finding, error) {
	var failure error
	rd.Calls = attack.Shrink(rd.Calls, tries, func(part []Call) bool {
		if len(part) == 0 {
			return false
		}
		for range 3 {
			shorter := rd
			shorter.Calls = part
			_, g, err := shorter.Run(ctx, s, scope)
			if err != nil {
				failure = err
				return false
			}
			if g != nil && g.Verdict == f.Verdict {
				f = g
				return true
			}
		}
		return false
	})
	return rd, f, failure
}

// Outcome tells of many rounds.
type Outcome struct {
	Told [Wrong + 1]int64 // how often each meaning was answered

	// Of the round that ended them by a finding or an error; Finding is nil if there was none.
	Seed    attack.Seed
	Round   Round // with as few calls as were found to fail
	Finding *Finding
}

// Found is the text of a report.
func (o *Outcome) Found() string {
	if o.Finding == nil {
		return "nothing"
	}
	return string(o.Finding.Verdict)
}

// Rounds carries rounds out until the budget is spent or one of them fails. next returns the round
// of a seed, and its subject.
func Rounds(
	ctx context.Context, seed attack.Seed, meter *attack.Meter, scope func() string, next func(attack.Seed) (Round, Subject),
) (o Outcome, err error) {
	for ; !meter.Spent(); meter.Done++ {
		var s Subject
		o.Seed = seed.Part(meter.Done)
		o.Round, s = next(o.Seed)
		res, f, err := o.Round.Run(ctx, s, scope)
		if err != nil {
			return o, err
		}
		for i := range res.Counts {
			o.Told[i] += res.Counts[i].Load()
		}
		if f != nil {
			o.Round, o.Finding, err = o.Round.Smallest(ctx, s, scope, f, 40)
			return o, err
		}
	}
	return o, nil
}
