package cut

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/serverload"
	"github.com/brimgo/brim/store"
)

// exchange is a call and all that it sends and receives.
type exchange struct {
	name  string
	kind  serverload.Kind
	fresh bool // the exchange begins with the connection
	looks bool // the call changes nothing, so its outcome is never unknown

	before func(context.Context, *rig, serverload.Call) error // past the proxy
	// call makes the call through the proxy. It returns the answer about each of its parts.
	call func(context.Context, *rig, serverload.Call) []error
	// stage tells whether each part of the call was applied: 0 or 1.
	stage func(context.Context, *rig, serverload.Call) ([]int, error)
}

// whole returns the call of an exchange that is applied wholly or not at all.
func whole(call func(context.Context, *rig, serverload.Call) error) func(context.Context, *rig, serverload.Call) []error {
	return func(ctx context.Context, r *rig, c serverload.Call) []error { return []error{call(ctx, r, c)} }
}

// subject is a store or a ledger of a rig: through the proxy, and past it.
type subject struct {
	name     string
	open     func(t *testing.T, setting string, d serverload.Defect) *rig
	settings []setting
	of       func(*rig) (attacked, sound serverload.Subject)
	extra    []exchange
}

// setting is a setting of the connections, with which the driver sends other messages and words its
// errors differently.
type setting struct {
	name, value string
	whole       bool // in the night, every byte is cut
}

var subjects = []subject{
	{
		"postgres", newPostgres, modes,
		func(r *rig) (_, _ serverload.Subject) { return r.buckets, r.soundBuckets },
		[]exchange{read, prune, remove},
	},
	{
		"spend", newPostgres, modes,
		func(r *rig) (_, _ serverload.Subject) { return r.ledger, r.soundLedger },
		[]exchange{remaining, get, holds, history, remembered, chargeAll, pruneSpends},
	},
	{
		"redis", newRedis, protocols,
		func(r *rig) (_, _ serverload.Subject) { return r.buckets, r.soundBuckets },
		[]exchange{read, prune, remove},
	},
}

// exchanges returns the exchanges of all steps of all kinds of calls, and some that begin with the
// connection.
func (s subject) exchanges(r *rig) []exchange {
	attacked, _ := s.of(r)
	var list []exchange
	seen := make(map[serverload.Kind]bool)
	for _, k := range attacked.Kinds() {
		if seen[k] {
			continue
		}
		seen[k] = true
		for step := range attacked.Steps(k) {
			list = append(list, s.step(k, step))
		}
	}
	for _, e := range append([]exchange{list[0]}, s.extra...) {
		e.name += " with connect"
		e.fresh = true
		list = append(list, e)
	}
	return append(list, s.extra...)
}

// step returns the exchange of a step of a call.
func (s subject) step(k serverload.Kind, step int) exchange {
	return exchange{
		name: fmt.Sprintf("%s %d", k, step+1), kind: k,
		before: func(ctx context.Context, r *rig, c serverload.Call) error {
			_, sound := s.of(r)
			for n := range step {
				if err := sound.Do(ctx, c, n); err != nil {
					return err
				}
			}
			return nil
		},
		call: whole(func(ctx context.Context, r *rig, c serverload.Call) error {
			attacked, _ := s.of(r)
			return attacked.Do(ctx, c, step)
		}),
		stage: func(ctx context.Context, r *rig, c serverload.Call) ([]int, error) {
			_, sound := s.of(r)
			stages, err := sound.Look(ctx, []serverload.Call{c})
			if err != nil || stages[0] == serverload.Doubled {
				return []int{serverload.Doubled}, err
			}
			return []int{max(serverload.Doubled, stages[0]-step)}, nil
		},
	}
}

// filled puts a unit into the bucket of a call.
func filled(ctx context.Context, r *rig, c serverload.Call) error {
	return r.soundBuckets.Do(ctx, c, 0)
}

// level returns the level of the bucket of a call.
func level(ctx context.Context, s store.Store, c serverload.Call) (float64, error) {
	states, err := s.Read(ctx, store.Bucket{Key: c.Places[0].Key})
	if err != nil {
		return 0, err
	}
	return states[0].Level, nil
}

// unchanged returns 0 if the bucket of a call holds its unit.
func unchanged(ctx context.Context, r *rig, c serverload.Call) ([]int, error) {
	if n, err := level(ctx, r.soundBuckets, c); err != nil || n != 1 {
		return []int{serverload.Doubled}, err
	}
	return []int{0}, nil
}

var read = exchange{
	name: "read", kind: serverload.Try, looks: true, before: filled, stage: unchanged,
	call: whole(func(ctx context.Context, r *rig, c serverload.Call) error {
		n, err := level(ctx, r.buckets, c)
		if err == nil && n != 1 {
			return fmt.Errorf("read a level of %v, want 1", n)
		}
		return err
	}),
}

var remove = exchange{
	name: "delete", kind: serverload.Try, before: filled,
	call: whole(func(ctx context.Context, r *rig, c serverload.Call) error {
		return r.buckets.Delete(ctx, c.Places[0].Key)
	}),
	stage: func(ctx context.Context, r *rig, c serverload.Call) ([]int, error) {
		n, err := level(ctx, r.soundBuckets, c)
		return []int{1 - int(n)}, err
	},
}

var prune = exchange{
	name: "prune", kind: serverload.Try,
	before: func(ctx context.Context, r *rig, c serverload.Call) error {
		r.clear(ctx)
		leaks := store.Limit{Capacity: 1, LeakRate: 1 << 40}
		op := store.Op{Bucket: leaks.For(c.Places[0].Key), Amount: 1}
		_, err := r.soundPruning.Fill(ctx, op)
		time.Sleep(2 * maxSkew) // on the server's clock: the bucket expires
		return err
	},
	call: whole(func(ctx context.Context, r *rig, _ serverload.Call) error {
		_, err := r.pruning.Prune(ctx)
		return err
	}),
	stage: func(ctx context.Context, r *rig, c serverload.Call) ([]int, error) {
		left := 0
		err := r.soundPruning.Visit(ctx, c.Places[0].Key, func(store.Entry) bool { left++; return true })
		return []int{1 - left}, err
	},
}

// errStuck is the error of a store that does not go on after a cut.
var errStuck = errors.New("the store does not go on after the cut")

// ready makes a whole call through the proxy, so that there is a connection that knows the
// statements. For an exchange with a connection of its own, it closes all others.
func (e exchange) ready(ctx context.Context, r *rig) error {
	if e.fresh {
		r.hangUp()
		return nil
	}
	c := r.next(e.kind)
	if err := e.before(ctx, r, c); err != nil {
		return err
	}
	if err := errors.Join(e.call(ctx, r, c)...); err != nil {
		return fmt.Errorf("%w: %w", errStuck, err)
	}
	return nil
}

// run makes the call under a cut. It returns nil if the answer is true.
func (e exchange) run(ctx context.Context, r *rig, k *cut) (*serverload.Finding, error) {
	if err := e.ready(ctx, r); err != nil {
		return nil, err
	}
	c := r.next(e.kind)
	if err := e.before(ctx, r, c); err != nil {
		return nil, err
	}
	r.arm(k)
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answers := e.call(limited, r, c)
	r.arm(nil)
	if err := r.ended(ctx); err != nil {
		return nil, err
	}
	stages, err := e.stage(ctx, r, c)
	if err != nil {
		return nil, err
	}
	for i, answer := range answers {
		if f := e.judge(k, answer, stages[i]); f != nil {
			return f, nil
		}
	}
	return nil, nil
}

// judge compares an answer with what was applied.
func (e exchange) judge(k *cut, answer error, stage int) *serverload.Finding {
	told := serverload.Meaning(answer)
	text := fmt.Sprintf("%s, %s after byte %d of %v: answer %v, applied %d times", e.name, k.mode, k.at, k.way, answer, stage)
	var span serverload.Span
	if !e.looks {
		span.Note(0, told)
	}
	switch v := span.Judge(stage); {
	case told == serverload.Wrong, e.looks && told == serverload.Unknown:
		return &serverload.Finding{Verdict: serverload.False, Text: text}
	case v != "":
		return &serverload.Finding{Verdict: v, Text: text}
	case told != serverload.Applied && (!k.done || k.mode == late):
		return &serverload.Finding{Verdict: serverload.False, Text: "without a cut: " + text}
	}
	return nil
}
