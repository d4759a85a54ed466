// Package harness is the part that the soak and all harnesses of module lab share: the seed and
// the budget of a run, and the shrinking of failures.
//
// Two environment variables steer a run. BRIM_SEED is the seed that everything random comes from;
// without it, a run takes a new seed. BRIM_TORTURE=1 gives a harness the budget of a night instead
// of seconds.
package harness
