package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

func TestAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.db")
	for _, c := range []struct {
		task string
		says []string
	}{
		{"a", []string{
			"plan: three of them", "search the web: 0.02 USD of at most 0.05 USD", "buy a report: failed",
			"buy a license: declined by step", "project: 99.95564000 USD of 100.00000000 USD left",
		}},
		{"a", []string{
			"plan: three of them", "search the web: paid for already, 0.02000000 USD", "buy a report: failed in an earlier run",
			"buy a license: declined by step", "project: 99.93128000 USD",
		}},
		{"b", []string{"search the web: 0.02 USD", "project: 99.88692000 USD"}},
	} {
		var out strings.Builder
		if err := run(t.Context(), []string{"-file", path, "-task", c.task}, &out); err != nil {
			t.Fatal(err)
		}
		for _, text := range c.says {
			if !strings.Contains(out.String(), text) {
				t.Errorf("task %s printed %q; want %q in it", c.task, out.String(), text)
			}
		}
	}
}

// TestTwoRunsAtOnce: runs without a name for their task are tasks of their own, also in one second.
func TestTwoRunsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.db")
	for n, left := range []string{"99.95564", "99.91128"} {
		var out strings.Builder
		if err := run(t.Context(), []string{"-file", path}, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "project: "+left) || strings.Contains(out.String(), "already") {
			t.Errorf("run %d printed %q; want %s left", n+1, &out, left)
		}
	}
}

// TestOverBudget: an agent whose budget has no room for a question goes on without an answer.
func TestOverBudget(t *testing.T) {
	b, err := spend.New(t.Context(), memledger.New(nil), spend.Budget{
		Name: "agents", Currency: unit, Rules: []spend.Rule{spend.Lifetime("project", usd(1))},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := newAgent(b, "task", &out).step(t.Context(), 0, steps[0]); err != nil {
		t.Fatal(err)
	}
	if want := "plan: the budget \"agents\" has no room"; !strings.HasPrefix(out.String(), want) {
		t.Errorf("printed %q; want %q", out.String(), want)
	}
}
