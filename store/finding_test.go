package store_test

import (
	"encoding/json"
	"testing"

	"github.com/brimgo/brim/store"
)

func TestSeverity(t *testing.T) {
	for s, want := range map[store.Severity]string{
		store.Unchecked: "unchecked", store.Warning: "warning", store.Broken: "broken",
		store.Broken + 1: "severity 3", 9: "severity 9", // no text stands for a severity beyond the last
	} {
		data, err := json.Marshal(store.Finding{Severity: s, Subject: "a", Problem: "b", Remedy: "c"})
		if got := `{"severity":"` + want + `","subject":"a","problem":"b","remedy":"c"}`; err != nil || string(data) != got {
			t.Errorf("%s, %v; want %s", data, err, got)
		}
		var back store.Finding
		if err := json.Unmarshal(data, &back); (err == nil) != (s <= store.Broken) || err == nil && back.Severity != s {
			t.Errorf("%s is read as %v, %v", data, back.Severity, err)
		}
	}
}
