//go:build race || invariant

package invariant

// On reports whether assumptions are checked.
const On = true
