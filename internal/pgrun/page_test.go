package pgrun

import (
	"fmt"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/docpage"
)

// TestPageFigures compares the bounds in docs/internals/postgres.md with the constants.
func TestPageFigures(t *testing.T) {
	words := map[int]string{3: "three", 7: "seven", 8: "eight"}
	pages := int64(1)
	for sizeClass(pages) < small {
		pages++
	}
	lacks := docpage.Lacks("../../docs/internals/postgres.md",
		fmt.Sprintf("while the table has fewer than %d pages", pages),
		fmt.Sprintf("for %s times the usual duration of a flush, and %d ms at least", words[waitRatio], leastWait.Milliseconds()),
		fmt.Sprintf("The slow lane waits %d ms for a row", slowWait.Milliseconds()),
		fmt.Sprintf("pauses of %d to %d ms", leastPause.Milliseconds(), longestPause.Milliseconds()),
		fmt.Sprintf("the statement stalls for %d ms", shortWait.Milliseconds()),
		fmt.Sprintf("the halves of the batch, the largest first, for %d ms.", halving.Milliseconds()),
		fmt.Sprintf("caller stays for %d ms beyond its deadline", grace.Milliseconds()),
		map[time.Duration]string{time.Second: "for a second at most after the last one has found the row held"}[remembered],
		fmt.Sprintf("A combiner remembers up to %s hashes", docpage.Thousands(len(Combiner[int, int]{}.held))),
		fmt.Sprintf("After %s eighths of `StatementTimeout`", words[int(patience(8))]),
		fmt.Sprintf("nothing was applied; repeated up to %s times", words[retries]),
	)
	if lacks != "" {
		t.Error(lacks)
	}
}
