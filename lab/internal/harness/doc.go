// Package harness is the part that the soak and all harnesses of module lab share: the seed and
// the budget of a run, and the shrinking of failures.
//
// Three environment variables steer a run. BRIM_SEED is the seed that everything random comes from;
// without it, a run takes a new seed. BRIM_COUNT is the number of tries on each subject, which
// otherwise has some seconds. BRIM_TORTURE=1 makes tries larger: all cuts of a call, more
// histories at a time.
package harness
