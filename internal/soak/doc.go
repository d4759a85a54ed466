// Package soak runs stores for long, and sees that what they take stays the same: memory, files and tables, goroutines. It has
// tests only. One is an hour of injected time in some seconds; with BRIM_TORTURE=1 there is a minute of real time at full load
// besides, for each backend.
package soak
