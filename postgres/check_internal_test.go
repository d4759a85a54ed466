package postgres

import (
	"strings"
	"testing"
)

// The servers that tests can start are new enough.
func TestCheckOfVersion(t *testing.T) {
	for number, name := range map[int]string{90624: "9.6.24", 130023: "13.23", 140000: "", 180001: ""} {
		k := &checker{}
		k.version(number, name)
		if len(k.findings) != 0 != (name != "") || name != "" && !strings.Contains(k.findings[0].Problem, "is 14") {
			t.Errorf("%d: %v", number, k.findings)
		}
	}
}
