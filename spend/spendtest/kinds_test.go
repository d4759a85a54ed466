package spendtest

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"testing"
)

// TestRandomHasEveryKind: the random rules, and those of the twins, have each alternative of the
// schema, so the model judges every kind of rules.
func TestRandomHasEveryKind(t *testing.T) {
	raw, err := os.ReadFile("../../docs/budget.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type alternative struct{ Required []string }
	var schema struct {
		Defs struct {
			Rule struct {
				OneOf []struct {
					alternative
					AnyOf []alternative
				}
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	var want [][]string
	for _, one := range schema.Defs.Rule.OneOf {
		for _, more := range append(one.AnyOf, alternative{})[:max(1, len(one.AnyOf))] {
			want = append(want, append(one.Required[:len(one.Required):len(one.Required)], more.Required...))
		}
	}
	some := map[string]func(r *rand.Rand) []Rule{
		"Random": func(r *rand.Rand) []Rule { return (&sequence{player: player{r: r}}).someRules() },
		"the twins": func(r *rand.Rand) []Rule {
			tw := &twins{player: player{r: r}, long: true}
			tw.someRules()
			return append(tw.rules[0], tw.rules[1]...)
		},
	}
	for name, rules := range some {
		seen := make([]bool, len(want))
		for seed := range uint64(500) {
			for _, r := range rules(rand.New(rand.NewPCG(3, seed))) {
				text, err := json.Marshal(budget("b", []Rule{r}))
				var b struct{ Rules []map[string]any }
				if err == nil {
					err = json.Unmarshal(text, &b)
				}
				if err != nil {
					t.Fatal(err)
				}
				for i, fields := range want {
					has := true
					for _, f := range fields {
						_, ok := b.Rules[0][f]
						has = has && ok
					}
					seen[i] = seen[i] || has
				}
			}
		}
		for i, ok := range seen {
			if !ok {
				t.Errorf("%s have no rule with %q", name, want[i])
			}
		}
	}
}
