// Package soak runs stores for a long time and checks that their memory, files, tables and
// goroutines do not grow as time passes. It contains only tests.
//
// TestHour compresses an hour of injected time into some seconds. With BRIM_TORTURE=1, TestMinute
// adds a minute of real time at full load for each backend.
package soak
