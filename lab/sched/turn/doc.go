// Package turn runs goroutines one at a time. A goroutine that reaches a point waits for its turn,
// and a plan decides whose turn is next: the same plan makes the same trace.
//
// Package weave puts the calls of this package into the code of a subject, in the place of its
// operations on channels, mutexes and atomic variables. Outside of a schedule they do what the
// operations do. Points never lie under a mutex: the calls know how many mutexes the goroutine
// holds. A bubble of testing/synctest gives the time, and tells when all goroutines wait.
package turn
