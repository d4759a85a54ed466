// Package sched tests combine, local, the Shaper and the syncs of a bolt file by concurrent calls
// in many schedules.
//
// A seed makes a few calls for a few goroutines, which run in a bubble of testing/synctest. It
// also gives the pauses before the calls, the ends of their contexts, and the pauses in the store
// below a wrapper. Many of these times are equal, so that their events race; the others put the
// events in an order. One thread, two and four run the goroutines in turns. The answers are
// compared with a model, or checked against the promises of the subject.
//
// # The part that a seed repeats
//
// A seed repeats the calls and all times, and so the order of events at different instants. It does
// not repeat the order of goroutines that are ready at one instant, nor the choice of a select. A
// failure that hangs on such an order may need the printed command several times: raise -count.
//
// # Planted defects
//
// TestCatches builds the tests with defects in the subjects, by the flag -overlay, and has to catch
// each of them. The list stands in catch_test.go.
//
// Threads alone are slow to catch units that are served twice, above all on a machine with other
// work. So in the program with the defects, the allotment lets others run in its window.
package sched
