package redis

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/serverload"
)

// TestCatches attacks deployments and stores with a defect. Each must be caught.
func TestCatches(t *testing.T) {
	for _, c := range []struct {
		name, why string
		open      func(t *testing.T) target
		want      []serverload.Verdict
	}{
		{
			"no append-only file", "the server answers, and writes nothing",
			func(t *testing.T) target { r := newLone(t); return r.target(r.subject(r.direct(), "")) },
			[]serverload.Verdict{serverload.Lost},
		},
		{
			string(serverload.Early), "the fill was not sent yet",
			func(t *testing.T) target {
				r := newLone(t, always...)
				return r.target(r.subject(r.direct(), serverload.Early))
			},
			[]serverload.Verdict{serverload.Lost},
		},
		{
			string(serverload.Mistold), "the server may have written it, and the caller sends it again",
			func(t *testing.T) target {
				r := newLone(t, always...)
				return r.target(r.subject(r.slow(), serverload.Mistold))
			},
			[]serverload.Verdict{serverload.Minted, serverload.Twice},
		},
		{
			string(serverload.Resent), "the first may have been applied",
			func(t *testing.T) target {
				r := newLone(t, always...)
				return r.target(r.subject(r.slow(), serverload.Resent))
			},
			[]serverload.Verdict{serverload.Minted, serverload.Twice},
		},
		{
			"a fail-over without Replicas", "the primary answers before its replica has the write",
			func(t *testing.T) target { r := newPair(t); return r.target(0, r.failover()) },
			[]serverload.Verdict{serverload.Lost},
		},
		{
			"a stopped primary without Replicas", "it goes on, and answers although another has taken over",
			func(t *testing.T) target { r := newPair(t); return r.target(0, r.stop()) },
			[]serverload.Verdict{serverload.Lost},
		},
		{
			"a bucket that stays behind", "a slot moves without one of its keys",
			func(t *testing.T) target {
				r := newSharded(t)
				to := r.target()
				to.attacks = func(s serverload.Subject) []damage {
					return []damage{{"removal of a key", func(pick *rand.Rand, calls []serverload.Call) error {
						return r.admin.Del(context.Background(), keyOf(s, pick, calls[:10])).Err()
					}}}
				}
				return to
			},
			[]serverload.Verdict{serverload.Lost},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			parallelByDay(t)
			to := c.open(t)
			meter := attack.Budget{Count: 200, Time: 2 * time.Minute}.Start()
			for ; !meter.Spent(); meter.Done++ {
				s := to.subjects[meter.Done%len(to.subjects)]
				rd := newRound(attack.Seed(1).Part(meter.Done), s, to.attacks(s))
				_, f, err := rd.Run(t.Context(), s, to.scope)
				if err != nil {
					t.Fatal(err)
				}
				if f != nil {
					t.Logf("caught after %d attacks: %v", meter.Done+1, f)
					// A call whose first step is lost, or whose second step was applied twice,
					// holds too little for the next one.
					if want := append(c.want, serverload.False); !slices.Contains(want, f.Verdict) {
						t.Errorf("found %s, want one of %s", f.Verdict, want)
					}
					return
				}
			}
			t.Errorf("not caught: %s", c.why)
		})
	}
}
