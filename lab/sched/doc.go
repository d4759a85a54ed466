// Package sched attacks combine, bolt's relaxed store, local, queue and the Shaper with
// schedules of their goroutines.
//
// The tests build themselves anew, with subjects into which package weave has put points, and run
// that program. A seed makes a few calls for a few goroutines, and a schedule: package turn has one
// goroutine run at a time, from point to point. A bubble of testing/synctest gives the time. The
// answers are compared with a model that takes the calls in the order in which they took effect.
// The same seed makes the same trace.
package sched
