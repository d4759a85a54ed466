package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ran returns results in which brim's subjects decide so many times as often as their references.
func ran(ratios map[string]float64) *results {
	r := &results{
		Machine: &machine{Go: "go1", Servers: map[string]string{}}, Measured: []*measured{},
		Subjects: []subjectInfo{
			{Name: boltName, Group: "brim", Against: boltUpdate},
			{Name: memoryName, Group: "brim", Against: rateName},
			{Name: boltUpdate, Group: "bare reference", Against: boltUpdate},
			{Name: rateName, Group: "peer", Against: rateName},
		},
	}
	at := map[string]cell{
		boltName: {"uniform", 64, 0, false}, memoryName: {"hot", 2, 1, true},
		boltUpdate: {"uniform", 64, 0, false}, rateName: {"hot", 2, 1, true},
	}
	for _, name := range slices.Sorted(maps.Keys(ratios)) {
		// The odd round shows that the rounds are paired.
		m := &measured{Subject: name, Cell: at[name], Rates: []float64{10 * ratios[name], 1000 * ratios[name], 10 * ratios[name]}}
		r.Measured = append(r.Measured, m)
	}
	return r
}

func TestCompare(t *testing.T) {
	const bolt, memory = "brim bolt / db.Update: uniform, 64 callers, accepted", "brim memory / x/time/rate: hot, 2 callers, refused, in memory"
	kept := map[string]float64{boltName: 20, boltUpdate: 1, memoryName: 2, rateName: 1}
	for _, c := range []struct {
		why   string
		kept  map[string]float64
		now   map[string]float64
		wants []string // in the error; none if the check passes
	}{
		{"the same ratios pass", kept, kept, nil},
		{
			"0.86 of the kept ratio is within the noise", kept,
			map[string]float64{boltName: 17.2, boltUpdate: 1, memoryName: 2, rateName: 1},
			nil,
		},
		{"the machine is half as fast, and the ratio is the same", kept, map[string]float64{boltName: 10, boltUpdate: 0.5, memoryName: 1, rateName: 0.5}, nil},
		{
			"0.84 of the kept ratio fails", kept,
			map[string]float64{boltName: 16.8, boltUpdate: 1, memoryName: 2, rateName: 1},
			[]string{"1 of 2", bolt, "16.8 now, 20 kept", "0.84"},
		},
		{
			"every ratio that is too low is named", kept,
			map[string]float64{boltName: 10, boltUpdate: 1, memoryName: 1, rateName: 1},
			[]string{"2 of 2", bolt, "10 now, 20 kept", memory, "1 now, 2 kept"},
		},
		{"a better ratio passes", kept, map[string]float64{boltName: 99, boltUpdate: 1, memoryName: 9, rateName: 1}, nil},
		{
			"a row that this run lacks fails", kept,
			map[string]float64{memoryName: 2, rateName: 1},
			[]string{bolt, "kept is 20", "has not measured it"},
		},
		{
			"a row whose reference is missing has no ratio", kept,
			map[string]float64{boltName: 20, memoryName: 2, rateName: 1},
			[]string{bolt, "has not measured it"},
		},
		{
			"a row that the kept results lack fails",
			map[string]float64{memoryName: 2, rateName: 1},
			kept,
			[]string{bolt, "20 now", "the kept results have no such ratio"},
		},
	} {
		text, err := compare(ran(c.kept), ran(c.now), checkedCells(2), func(string) bool { return true })
		if (err == nil) != (c.wants == nil) {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		for _, want := range c.wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not contain %q: %v", c.why, want, err)
			}
		}
		for _, name := range []string{bolt, memory} {
			if !strings.Contains(text, name) {
				t.Errorf("%s: %s is missing in:\n%s", c.why, name, text)
			}
		}
	}
}

// TestCompareNoisyRounds compares with results whose rounds differ.
func TestCompareNoisyRounds(t *testing.T) {
	kept := ran(map[string]float64{boltName: 20, boltUpdate: 1})
	kept.Measured[0].Rates[0] /= 2 // a round of ratio 10
	for _, c := range []struct {
		ratio float64
		ok    bool
	}{{17.2, true}, {16.8, true}, {10, true}, {9.9, false}} {
		now := ran(map[string]float64{boltName: c.ratio, boltUpdate: 1})
		text, err := compare(kept, now, checkedCells(2), func(string) bool { return true })
		if (err == nil) != c.ok || strings.Contains(text, "as low as a kept round") != (c.ok && c.ratio < 17) {
			t.Errorf("%v after rounds of 10, 20 and 20: %v\n%s", c.ratio, err, text)
		}
	}
}

func TestCompareOnlyTheChosen(t *testing.T) {
	kept := ran(map[string]float64{boltName: 20, boltUpdate: 1, memoryName: 2, rateName: 1})
	now := ran(map[string]float64{memoryName: 2, rateName: 1})
	if _, err := compare(kept, now, checkedCells(2), func(name string) bool { return name == memoryName }); err != nil {
		t.Errorf("a subject that was not chosen is missing: %v", err)
	}
}

func TestCompareTellsDifferences(t *testing.T) {
	r := map[string]float64{boltName: 20, boltUpdate: 1}
	kept, now := ran(r), ran(r)
	now.Machine.Go = "go2"
	text, err := compare(kept, now, checkedCells(2), func(string) bool { return true })
	if err != nil || !strings.Contains(text, "NOTE: the Go of the kept results is go1, and here it is go2") {
		t.Errorf("%v: %s", err, text)
	}
}

func TestReadKept(t *testing.T) {
	full := ran(map[string]float64{boltName: 20, boltUpdate: 1})
	quick, empty := *full, *full
	quick.Plan.Quick, empty.Measured = true, nil
	content := func(r *results) string {
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct {
		why, content, want string
	}{
		{"a full run is compared with", content(full), ""},
		{"a quick run is too short", content(&quick), "quick run"},
		{"a run without cells has no ratios", content(&empty), "no decisions per second"},
		{"not JSON", "# brim and its peers", "invalid character"},
		{"no file", "", "there are no results to compare with"},
	} {
		path := filepath.Join(t.TempDir(), "results.json")
		if c.content != "" {
			if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := readKept(path)
		if c.want == "" {
			if err != nil || len(r.checked(checkedCells(2), func(string) bool { return true })) != 1 {
				t.Errorf("%s: %v", c.why, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "make bench-peers") {
			t.Errorf("%s: %v; want %q and the remedy", c.why, err, c.want)
		}
	}
}

func TestCheckedCellsAreMeasured(t *testing.T) {
	for _, c := range checkedCells(2) {
		if !slices.Contains(cells(2, false), c) {
			t.Errorf("%s is compared, but a whole run does not measure it", c)
		}
	}
	var names []string
	for _, s := range withReferences(subjects()) {
		names = append(names, s.name)
	}
	for _, name := range []string{boltName, boltUpdate, postgresName, updateName, memoryName, rateName, redisRateCluster} {
		if !slices.Contains(names, name) {
			t.Errorf("a check does not measure %s", name)
		}
	}
	if slices.Contains(names, syncName) || slices.Contains(names, "row per request") {
		t.Errorf("a check measures more than brim's subjects and their references: %q", names)
	}
}
