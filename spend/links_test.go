package spend_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A program that uses only buckets does not link package spend.
func TestBucketsLinkNothingOfSpend(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "github.com/brimgo/brim", "github.com/brimgo/brim/memory",
		"github.com/brimgo/brim/bolt", "github.com/brimgo/brim/postgres").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(line, "github.com/brimgo/brim/spend") {
			t.Errorf("a user of buckets links %s", line)
		}
	}
	out, err = exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		"github.com/brimgo/brim/spend/ledger").CombinedOutput()
	if got := strings.TrimSpace(string(out)); err != nil || got != "github.com/brimgo/brim/spend/ledger" {
		t.Errorf("the contract of ledgers imports more than the standard library: %q, %v", got, err)
	}
}
