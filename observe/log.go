package observe

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/brimgo/brim/store"
)

// LogOptions say what [Log] finds worth saying, and how loud. The zero value is the default.
type LogOptions struct {
	// Decisions is the level of what was accepted, and Refusals of what was refused. Nil means [slog.LevelDebug]: there may
	// be a great many of either.
	Decisions, Refusals *slog.Level
	// Slow makes a call that took longer than this worth a warning; 0 means never.
	Slow time.Duration
	// Flushes is the level of what the backend tells of its commits. Nil means [slog.LevelDebug].
	Flushes *slog.Level
}

// Log returns hooks that write to l, which may be nil for silence. A failed call is logged as an error, one whose outcome is
// unknown with "outcome" set; one that its caller gave up, or that was sent after Close, for debugging only. A retry is a
// warning. No message holds a key, but for what [Options.Key] makes of it.
func Log(l *slog.Logger, o *LogOptions) Hooks {
	if o == nil {
		o = &LogOptions{}
	}
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	level := func(of *slog.Level) slog.Level {
		if of == nil {
			return slog.LevelDebug
		}
		return *of
	}
	decisions, refusals, flushes, slow := level(o.Decisions), level(o.Refusals), level(o.Flushes), o.Slow
	return Hooks{
		Decision: func(ctx context.Context, d Decision) {
			if d.Accepted {
				logDecision(ctx, l, decisions, "brim: accepted", d)
			} else {
				logDecision(ctx, l, refusals, "brim: refused", d)
			}
		},
		End: func(ctx context.Context, c Call, e End) {
			switch {
			case e.Err != nil:
				logError(ctx, l, c, e)
			case slow > 0 && e.Took > slow:
				l.LogAttrs(ctx, slog.LevelWarn, "brim: slow call", call(c), slog.Duration("took", e.Took))
			}
			if e.Failed > 0 {
				l.LogAttrs(ctx, slog.LevelWarn, "brim: transactions failed", call(c), slog.Int("failed", e.Failed))
			}
		},
		Flush: func(f store.Flush) {
			attrs := []slog.Attr{slog.String("backend", f.Backend), slog.Int("requests", f.Requests), slog.Duration("took", f.Took)}
			if f.Err != nil {
				l.LogAttrs(context.Background(), slog.LevelError, "brim: flush failed", append(attrs, slog.Any("error", f.Err))...)
				return
			}
			l.LogAttrs(context.Background(), flushes, "brim: flushed", attrs...)
		},
		Retry: func(r store.Retry) {
			l.LogAttrs(context.Background(), slog.LevelWarn, "brim: trying again what was not applied",
				slog.String("backend", r.Backend), slog.Int("attempt", r.Attempt), slog.Any("error", r.Err))
		},
	}
}

func call(c Call) slog.Attr { return slog.Group("call", "method", string(c.Method), "size", c.Size) }

func logError(ctx context.Context, l *slog.Logger, c Call, e End) {
	level := slog.LevelError
	if canceled(e.Err) || errors.Is(e.Err, store.ErrClosed) {
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{call(c), slog.Duration("took", e.Took), slog.Any("error", e.Err)}
	if errors.Is(e.Err, store.ErrUnknownOutcome) {
		level = slog.LevelError // also where the caller gave up: it may have been applied
		attrs = append(attrs, slog.String("outcome", "unknown"))
	}
	l.LogAttrs(ctx, level, "brim: call failed", attrs...)
}

func logDecision(ctx context.Context, l *slog.Logger, level slog.Level, msg string, d Decision) {
	if !l.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.Float64("amount", d.Amount), slog.Float64("level", d.State.Level),
		slog.Float64("capacity", d.State.Capacity), slog.Bool("estimate", d.State.Estimate),
	}
	if d.Key != "" {
		attrs = append(attrs, slog.String("key", d.Key))
	}
	if d.Hold != 0 || d.State.Held != 0 {
		attrs = append(attrs, slog.Float64("hold", d.Hold), slog.Float64("held", d.State.Held))
	}
	switch {
	case d.State.RetryAfter == store.Never:
		attrs = append(attrs, slog.String("retry_after", "never"))
	case d.State.RetryAfter > 0:
		attrs = append(attrs, slog.Duration("retry_after", d.State.RetryAfter))
	}
	l.LogAttrs(ctx, level, msg, attrs...)
}
