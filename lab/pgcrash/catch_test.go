//go:build linux

package pgcrash

import (
	"slices"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/serverload"
)

// lazy has the server answer before it has written the commit.
const lazy = "synchronous_commit=off"

// testCatches crashes the server under defective stores. Each defect must be caught.
func testCatches(t *testing.T, r *rig) {
	direct, slow := r.pool(r.server.URL()), r.pool(r.proxy.URL())
	relaxed := r.pool(r.server.URL(), lazy)
	for _, c := range []struct {
		name, why string
		subject   serverload.Subject
		want      []serverload.Verdict
	}{
		{
			"postgres, " + lazy, "the server answers before it has written the commit",
			r.buckets(relaxed, ""),
			[]serverload.Verdict{serverload.Lost},
		},
		{
			"spend, " + lazy, "the server answers before it has written the commit",
			r.ledger(relaxed, ""),
			[]serverload.Verdict{serverload.Lost},
		},
		{
			"postgres, " + string(serverload.Early), "the fill was not sent yet",
			r.buckets(direct, serverload.Early),
			[]serverload.Verdict{serverload.Lost},
		},
		{
			"postgres, " + string(serverload.Mistold), "the server may have committed",
			r.buckets(slow, serverload.Mistold),
			[]serverload.Verdict{serverload.Minted},
		},
		{
			"spend, " + string(serverload.Mistold), "the server may have committed",
			r.ledger(slow, serverload.Mistold),
			[]serverload.Verdict{serverload.Minted},
		},
		{
			"postgres, " + string(serverload.Resent), "the first may have been applied",
			r.buckets(slow, serverload.Resent),
			// The answer to the second may be that it was not applied.
			[]serverload.Verdict{serverload.Twice, serverload.Minted},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			budget := attack.Budget{Count: 100, Time: 2 * time.Minute}
			for meter := budget.Start(); !meter.Spent(); meter.Done++ {
				rd := newRound(r, attack.Seed(1).Part(meter.Done), c.subject)
				rd.Calls = rd.Calls[:100]
				_, f, err := rd.Run(t.Context(), c.subject, r.scope)
				if err != nil {
					t.Fatal(err)
				}
				if f != nil {
					t.Logf("caught after %d crashes: %v", meter.Done+1, f)
					if !slices.Contains(c.want, f.Verdict) {
						t.Errorf("found %s, want %s", f.Verdict, c.want)
					}
					return
				}
			}
			t.Errorf("not caught: %s", c.why)
		})
	}
}

// testShrinks: the failure that is shown has a few calls.
func testShrinks(t *testing.T, r *rig) {
	s := r.buckets(r.pool(r.server.URL(), lazy), "")
	rd := newRound(r, 1, s)
	rd.Calls = rd.Calls[:4]
	var f *serverload.Finding
	for tries := 0; f == nil; tries++ { // on a busy machine the server may write before the crash
		var err error
		if _, f, err = rd.Run(t.Context(), s, r.scope); err != nil || tries == 30 {
			t.Fatalf("found %v, %v", f, err)
		}
	}
	short, g, err := rd.Smallest(t.Context(), s, r.scope, f, 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(g, short.Calls)
	if len(short.Calls) > 2 || g.Verdict != serverload.Lost {
		t.Errorf("%s with %d calls, want lost with 2 at most", g.Verdict, len(short.Calls))
	}
}
