// Package soak runs stores, ledgers and a server for a long time and checks that their
// memory, files, tables, goroutines, file descriptors and connections do not grow as time passes.
// It contains only tests.
//
// With SOAK=4h, as "make soak" sets it, TestFullLoad takes four hours for one subject. It prints
// the slope of each resource, and fails if one is more than noise. The seed chooses the subject.
// TestCatch has the slopes find leaks.
package soak
