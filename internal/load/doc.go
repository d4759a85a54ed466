// Package load generates load in a closed loop: each caller asks a limiter, waits for the
// answer and asks again. The package counts the answers and measures how long they took. It
// also compares subjects that take turns.
package load
