package spend

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/brimgo/brim/spend/internal/decide"
	"github.com/brimgo/brim/spend/internal/figures"
)

// TestKinds walks the descriptions of the kinds. A rule of a kind needs the fields that its
// description needs, may have those that it takes, and no others. A field that changes the entries
// that the rule counts changes its fingerprint.
func TestKinds(t *testing.T) {
	// values are two of each field; the second differs from the value without the field, too.
	values := map[string][2]string{
		"name": {`"r"`, `"s"`}, "leaky": {`10`, `20`}, "rolling": {`10`, `20`}, "calendar": {`10`, `20`}, "per_transaction": {`10`, `20`},
		"lifetime": {`10`, `20`}, "count": {`10`, `20`}, "drains_in": {`"1h"`, `"2h"`}, "window": {`"1h"`, `"2h"`},
		"period": {`"week"`, `"day"`}, "zone": {`"UTC"`, `"Europe/Berlin"`}, "week_starts": {`"sunday"`, `"friday"`},
		"month_starts": {`2`, `31`}, "day_starts": {`"04:00"`, `"05:00"`}, "where": {`{"a":"x"}`, `{"a":["x","y"]}`},
		"where_not": {`{"a":"x"}`, `{"b":"x"}`}, "where_amount": {`{"at_least":5}`, `{"at_most":5}`}, "per": {`"m"`, `"n"`}, "at_most": {`20`, `30`},
		"counts_credits": {`true`, `true`}, "counts_declines": {`true`, `true`}, "counts_voids": {`true`, `true`}, "thresholds": {`[50]`, `[80]`},
		"shadow": {`true`, `true`},
	}
	// same are the fields that count the same entries, by their reason.
	same := map[string]string{
		"name": "figures are found by name and fingerprint", "at_most": "a bound of limits", "counts_credits": "credits that were counted stay",
		"thresholds": "they only tell", "shadow": "its figures go on when it judges", "drains_in": "units stay in the bucket", "zone": "the account has the instant at which its period began",
	}
	fields := slices.Sorted(maps.Keys(values))
	var written []string
	for f := range reflect.TypeFor[ruleJSON]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		written = append(written, name)
	}
	if slices.Sort(written); !slices.Equal(written, fields) {
		t.Fatalf("rules have the fields %q; the test has values of %q", written, fields)
	}
	used := make(map[string]bool)
	for k := figures.Leaky; int(k) < len(figures.Kinds); k++ {
		d := &figures.Kinds[k]
		read := func(rule map[string]string) (*decide.Plan, error) {
			text := `{"budget":"b","currency":"EUR","rules":[{`
			for i, field := range slices.Sorted(maps.Keys(rule)) {
				if i > 0 {
					text += ","
				}
				text += fmt.Sprintf("%q:%s", field, rule[field])
			}
			var b Budget
			if err := json.Unmarshal([]byte(text+"}]}"), &b); err != nil {
				return nil, err
			}
			if again, err := json.Marshal(b); err != nil {
				t.Errorf("%s: %v is read and cannot be written: %s, %v", d.Name, rule, again, err)
			}
			checked, err := b.check()
			if err != nil {
				return nil, err
			}
			return checked.Plans[""], nil
		}
		needed := append([]string{"name", d.Limit}, needs(k)...)
		base := make(map[string]string)
		for _, field := range needed {
			base[field] = values[field][0]
		}
		for _, field := range needs(k) {
			for _, bad := range []string{`"0s"`, `"-1h"`, `"1000000h"`} {
				rule := maps.Clone(base)
				rule[field] = bad
				if _, err := read(rule); err == nil {
					t.Errorf("%s: its %s may be %s", d.Name, field, bad)
				}
			}
		}
		for _, field := range fields {
			rule := maps.Clone(base)
			if field == "month_starts" && rule["period"] != "" {
				rule["period"] = `"month"` // it has no effect on others
			}
			before, err := read(rule)
			if err != nil || before.Rules[0].Kind != k {
				t.Fatalf("%s: %v, %v", d.Name, before, err)
			}
			if slices.Contains(needed, field) {
				without := maps.Clone(base)
				delete(without, field)
				if got, err := read(without); err == nil && got.Rules[0].Kind == k {
					t.Errorf("%s: a rule without %s", d.Name, field)
				}
			}
			rule[field] = values[field][1]
			if !takes(k, field) {
				_, err := read(rule)
				mistake := &BudgetError{}
				if errors.As(err, &mistake); len(mistake.Path) != 3 || mistake.Path[2] != field && !slices.Contains(needed, fmt.Sprint(mistake.Path[2])) {
					t.Errorf("%s: a rule that has %s: %v; want a mistake in that field, or in one that it contradicts", d.Name, field, err)
				}
				continue
			}
			used[field] = true
			after, err := read(rule)
			if err != nil {
				t.Errorf("%s: %s is refused: %v", d.Name, field, err)
				continue
			}
			changed, noEffect := after.Fingerprints[0] != before.Fingerprints[0], k == figures.Count && slices.Contains(anchorFields, field)
			if want := same[field] == "" && field != d.Limit && !noEffect; changed != want {
				t.Errorf("%s: another %s changes the fingerprint: %v; want %v", d.Name, field, changed, want)
			}
		}
	}
	for _, field := range fields {
		if !used[field] {
			t.Errorf("no kind has the field %s", field)
		}
	}
}
