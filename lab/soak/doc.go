// Package soak runs stores, ledgers, a queue and a server for a long time and checks that their
// memory, files, tables, goroutines, file descriptors and connections do not grow as time passes.
// It contains only tests.
//
// TestHour compresses an hour of injected time into some seconds. TestFullLoad takes real time, at
// full load: with BRIM_TORTURE=1 a minute for each subject, and with SOAK=4h, as "make soak" sets
// it, four hours for one subject. It prints the slope of each resource, and fails if one is more
// than noise.
package soak
