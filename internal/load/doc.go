// Package load generates load in a closed loop: callers ask a limiter, and each asks again as
// soon as it has its answer. The package counts the answers and measures how long they took. It
// also compares subjects that take turns.
package load
