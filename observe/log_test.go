package observe_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/observe"
	"github.com/brimgo/brim/store"
)

// TestLog checks the record of each event and its level.
func TestLog(t *testing.T) {
	ctx := t.Context()
	canceled := fmt.Errorf("fill: %w", context.Canceled)
	for _, c := range []struct {
		name string
		o    *observe.LogOptions
		call func(h observe.Hooks)
		want string // "" for nothing
	}{
		{"accepted", nil, func(h observe.Hooks) {
			h.Decision(ctx, observe.Decision{Amount: 3, Accepted: true, State: store.State{Level: 4, Capacity: 10}})
		}, `level=DEBUG msg="brim: accepted" amount=3 level=4 capacity=10 estimate=false`},
		{"refused, with a key", &observe.LogOptions{Refused: slog.LevelInfo}, func(h observe.Hooks) {
			h.Decision(ctx, observe.Decision{Key: "1f", Hold: 3, State: store.State{
				Capacity: 10, Held: 9, Estimate: true, RetryAfter: time.Second,
			}})
		}, `level=INFO msg="brim: refused" amount=0 level=0 capacity=10 estimate=true key=1f hold=3 held=9 retry_after=1s`},
		{"refused for ever", nil, func(h observe.Hooks) {
			h.Decision(ctx, observe.Decision{Amount: 11, State: store.State{Capacity: 10, RetryAfter: store.Never}})
		}, `level=DEBUG msg="brim: refused" amount=11 level=0 capacity=10 estimate=false retry_after=never`},
		{"shadowed", &observe.LogOptions{Refused: slog.LevelInfo}, func(h observe.Hooks) {
			h.Decision(ctx, observe.Decision{Amount: 3, Shadowed: true, State: store.State{Level: 9, Capacity: 10, RetryAfter: time.Second}})
		}, `level=INFO msg="brim: would have refused" amount=3 level=9 capacity=10 estimate=false retry_after=1s`},
		{"blocked", nil, func(h observe.Hooks) {
			until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			h.Block(ctx, observe.Block{Mode: store.Block, Key: "1f", Reason: "stolen", State: store.State{BlockedUntil: until}})
		}, `level=INFO msg="brim: blocked" until=2026-01-02T03:04:05.000Z reason=stolen key=1f`},
		{"unblocked", &observe.LogOptions{Blocked: slog.LevelWarn}, func(h observe.Hooks) {
			h.Block(ctx, observe.Block{Mode: store.Unblock})
		}, `level=WARN msg="brim: unblocked"`},
		{"fast", &observe.LogOptions{Slow: time.Second}, func(h observe.Hooks) {
			h.End(ctx, observe.Call{Method: observe.MethodFill, Size: 1}, observe.Outcome{Took: time.Second})
		}, ""},
		{"slow", &observe.LogOptions{Slow: time.Second}, func(h observe.Hooks) {
			h.End(ctx, observe.Call{Method: observe.MethodFill, Size: 1}, observe.Outcome{Took: 2 * time.Second})
		}, `level=WARN msg="brim: slow call" call.method=fill call.size=1 took=2s`},
		{"failed", nil, func(h observe.Hooks) {
			o := observe.Outcome{Took: time.Second, Err: store.ErrUnavailable}
			h.End(ctx, observe.Call{Method: observe.MethodRead, Size: 2}, o)
		}, `level=ERROR msg="brim: call failed" call.method=read call.size=2 took=1s error="store unavailable"`},
		{"canceled", nil, func(h observe.Hooks) {
			h.End(ctx, observe.Call{Method: observe.MethodFill, Size: 1}, observe.Outcome{Err: canceled})
		}, `level=DEBUG msg="brim: call failed" call.method=fill call.size=1 took=0s error="fill: context canceled"`},
		{"canceled in flight", nil, func(h observe.Hooks) {
			err := fmt.Errorf("%w: %w", store.ErrUnknownOutcome, canceled)
			h.End(ctx, observe.Call{Method: observe.MethodFill, Size: 1}, observe.Outcome{Err: err})
		}, `level=ERROR msg="brim: call failed" call.method=fill call.size=1 took=0s ` +
			`error="outcome unknown: fill: context canceled" outcome=unknown`},
		{"some transactions failed", nil, func(h observe.Hooks) {
			h.End(ctx, observe.Call{Method: observe.MethodApply, Size: 3}, observe.Outcome{Failed: 2})
		}, `level=WARN msg="brim: transactions failed" call.method=apply call.size=3 failed=2`},
		{"flushed", &observe.LogOptions{Flushed: slog.LevelInfo}, func(h observe.Hooks) {
			h.Trace().Flush(store.Flush{Backend: "bolt", Requests: 7, Took: time.Millisecond})
		}, `level=INFO msg="brim: flushed" backend=bolt requests=7 took=1ms`},
		{"flush failed", nil, func(h observe.Hooks) {
			h.Trace().Flush(store.Flush{Backend: "bolt", Requests: 7, Took: time.Millisecond, Err: store.ErrUnavailable})
		}, `level=ERROR msg="brim: flush failed" backend=bolt requests=7 took=1ms error="store unavailable"`},
		{"retry", nil, func(h observe.Hooks) {
			h.Trace().Retry(store.Retry{Backend: "postgres", Attempt: 2, Err: store.ErrUnavailable})
		}, `level=WARN msg="brim: retrying a request that was not applied" ` +
			`backend=postgres attempt=2 error="store unavailable"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			l := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
				Level: slog.LevelDebug,
				ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
					if len(groups) == 0 && a.Key == slog.TimeKey {
						return slog.Attr{}
					}
					return a
				},
			}))
			c.call(observe.Log(l, c.o))
			if got := strings.TrimSpace(out.String()); got != c.want {
				t.Errorf("logged\n%s\nwant\n%s", got, c.want)
			}
			c.call(observe.Log(nil, c.o)) // a nil logger writes nothing and does not panic
		})
	}
}
