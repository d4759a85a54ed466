package observe

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/brimgo/brim/store"
)

// LogOptions adjust the hooks of [Log]. The zero value selects the defaults.
type LogOptions struct {
	// Accepted and Refused are the levels of decisions; nil means [slog.LevelDebug], because a
	// busy program makes a great many decisions. Refused is also that of a decision that
	// Options.Shadow of the Limiter let pass.
	Accepted, Refused slog.Leveler
	// Slow is the duration above which a call is logged as a warning; 0 means that no call is
	// slow.
	Slow time.Duration
	// Blocked is the level of blocks, and of their ends, by Limiter.Block and Limiter.Unblock; nil
	// means [slog.LevelInfo].
	Blocked slog.Leveler
	// Flushed is the level of the backend's commits; nil means [slog.LevelDebug].
	Flushed slog.Leveler
}

// Log returns hooks that write to l; o may be nil. If l is nil, the hooks write nothing.
//
// A failed call is logged as an error. If its outcome is unknown, the record has the attribute
// outcome=unknown. If the caller gave up, or the call came after Close, the call is logged at
// the debug level instead, unless its outcome is unknown. A retry, a slow call and a transaction
// with an error of its own are logged as warnings. No record holds a key, except the form that
// [Options.Key] returns.
func Log(l *slog.Logger, o *LogOptions) Hooks {
	if o == nil {
		o = &LogOptions{}
	}
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}
	orDebug := func(level slog.Leveler) slog.Leveler {
		if level == nil {
			return slog.LevelDebug
		}
		return level
	}
	blocked := o.Blocked
	if blocked == nil {
		blocked = slog.LevelInfo
	}
	accepted, refused, flushed, slow := orDebug(o.Accepted), orDebug(o.Refused), orDebug(o.Flushed), o.Slow
	return Hooks{
		Decision: func(ctx context.Context, d Decision) {
			switch {
			case d.Shadowed:
				logDecision(ctx, l, refused.Level(), "brim: would have refused", d)
			case d.Accepted:
				logDecision(ctx, l, accepted.Level(), "brim: accepted", d)
			default:
				logDecision(ctx, l, refused.Level(), "brim: refused", d)
			}
		},
		Block: func(ctx context.Context, b Block) { logBlock(ctx, l, blocked.Level(), b) },
		End: func(ctx context.Context, c Call, o Outcome) {
			switch {
			case o.Err != nil:
				logError(ctx, l, c, o)
			case slow > 0 && o.Took > slow:
				l.LogAttrs(ctx, slog.LevelWarn, "brim: slow call", call(c), slog.Duration("took", o.Took))
			}
			if o.Failed > 0 {
				l.LogAttrs(ctx, slog.LevelWarn, "brim: transactions failed", call(c), slog.Int("failed", o.Failed))
			}
		},
		Flush: func(f store.Flush) {
			level, msg := flushed.Level(), "brim: flushed"
			attrs := []slog.Attr{
				slog.String("backend", f.Backend), slog.Int("requests", f.Requests), slog.Duration("took", f.Took),
			}
			if f.Err != nil {
				level, msg = slog.LevelError, "brim: flush failed"
				attrs = append(attrs, slog.Any("error", f.Err))
			}
			l.LogAttrs(context.Background(), level, msg, attrs...)
		},
		Retry: func(r store.Retry) {
			l.LogAttrs(context.Background(), slog.LevelWarn, "brim: retrying a request that was not applied",
				slog.String("backend", r.Backend), slog.Int("attempt", r.Attempt), slog.Any("error", r.Err))
		},
	}
}

func call(c Call) slog.Attr { return slog.Group("call", "method", string(c.Method), "size", c.Size) }

func logError(ctx context.Context, l *slog.Logger, c Call, o Outcome) {
	level := slog.LevelError
	if canceled(o.Err) || errors.Is(o.Err, store.ErrClosed) {
		level = slog.LevelDebug
	}
	attrs := []slog.Attr{call(c), slog.Duration("took", o.Took), slog.Any("error", o.Err)}
	if errors.Is(o.Err, store.ErrUnknownOutcome) {
		level = slog.LevelError // even if the caller gave up: the call may have been applied
		attrs = append(attrs, slog.String("outcome", "unknown"))
	}
	l.LogAttrs(ctx, level, "brim: call failed", attrs...)
}

func logBlock(ctx context.Context, l *slog.Logger, level slog.Level, b Block) {
	msg, attrs := "brim: unblocked", make([]slog.Attr, 0, 3)
	if b.Mode == store.Block {
		msg, attrs = "brim: blocked", append(attrs, slog.Time("until", b.State.BlockedUntil))
	}
	if b.Reason != "" {
		attrs = append(attrs, slog.String("reason", b.Reason))
	}
	if b.Key != "" {
		attrs = append(attrs, slog.String("key", b.Key))
	}
	l.LogAttrs(ctx, level, msg, attrs...)
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
	case d.State.RetryAfter >= store.Never:
		attrs = append(attrs, slog.String("retry_after", "never"))
	case d.State.RetryAfter > 0:
		attrs = append(attrs, slog.Duration("retry_after", d.State.RetryAfter))
	}
	l.LogAttrs(ctx, level, msg, attrs...)
}
