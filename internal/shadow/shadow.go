// Package shadow marks the context of a call that a Limiter lets pass whatever the limit says, so
// that the hooks of package observe can tell it from a call that the limit refuses.
package shadow

import "context"

type key struct{}

// Context returns a copy of ctx with the mark.
func Context(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// In reports whether ctx has the mark.
func In(ctx context.Context) bool { return ctx.Value(key{}) != nil }
