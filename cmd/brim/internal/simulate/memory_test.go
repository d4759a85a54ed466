package simulate_test

import (
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/cmd/brim/internal/trace"
	"github.com/brimgo/brim/internal/plot"
)

// generated is an access log of a number of lines, made while it is read.
type generated struct {
	line, lines int
	rest        []byte
}

func (g *generated) Read(p []byte) (int, error) {
	for len(g.rest) < len(p) && g.line < g.lines {
		at := simulate.Start.Add(time.Duration(g.line) * time.Millisecond).Format("02/Jan/2006:15:04:05 -0700")
		g.rest = fmt.Appendf(g.rest, "host-%d - - [%s] \"GET /%0900d HTTP/1.0\" 200 1\n", g.line%100, at, g.line)
		g.line++
	}
	n := copy(p, g.rest)
	g.rest = g.rest[:copy(g.rest, g.rest[n:])]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// The memory in use follows the number of keys, and not the length of the log: this log of a
// hundred megabytes and more, with a picture of its course, takes a few.
func TestMemoryOfALongLog(t *testing.T) {
	lines := 150_000
	if testing.Short() {
		lines = 50_000
	}
	r, err := trace.NewReader(&generated{lines: lines}, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	before, most := memory.HeapAlloc, uint64(0)
	var course plot.Timeline
	rep, err := simulate.Run(t.Context(), r, simulate.Options{
		Limits: simulate.Over(1, time.Minute).With(simulate.Capacities(1, 1e6)), Cost: 1,
		Watch: func(e simulate.Event) { course.Add(e.At, e.Accepted) },
		Progress: func(int64) {
			runtime.ReadMemStats(&memory)
			most = max(most, memory.HeapAlloc)
		},
	})
	if err != nil || rep.Requests != int64(lines) || rep.Keys != 100 || !rep.Complete {
		t.Fatalf("%v, %+v; want %d requests by 100 keys", err, rep, lines)
	}
	const allowed = 32 << 20
	if most > before+allowed {
		t.Errorf("the heap grew from %d to %d bytes; want at most %d more", before, most, allowed)
	}
}
