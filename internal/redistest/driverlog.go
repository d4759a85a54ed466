package redistest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// driver keeps the last lines that go-redis logs, in any test of the binary. go-redis writes them
// to the standard error otherwise, where those about servers that a test stops hide the failures of
// others.
var driver = newDriverLog()

// mostLines bounds the lines that a failed test prints.
const mostLines = 10

type driverLog struct {
	mu    sync.Mutex
	lines []string
}

func newDriverLog() *driverLog {
	var l driverLog
	redis.SetLogger(&l)
	return &l
}

// Printf implements the logger of go-redis.
func (l *driverLog) Printf(_ context.Context, format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines[max(0, len(l.lines)+1-mostLines):], fmt.Sprintf(format, v...))
}

// tell has t print the lines if it has failed.
func (l *driverLog) tell(t testing.TB) {
	t.Helper()
	if !t.Failed() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) > 0 {
		t.Logf("the last lines of go-redis:\n%s", strings.Join(l.lines, "\n"))
	}
}
