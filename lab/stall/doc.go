// Package stall attacks brim with things that stand still and clocks that do not.
//
// A client that holds a lease is stopped until the lease has expired, and goes on. A client is
// stopped while its transaction holds rows locked. The server is stopped under load. Every other
// caller must get a true answer in time, nothing may be lost or applied twice afterwards, and the
// processes together must not be granted more than the bucket allows.
//
// The clocks of the stores in memory, in a file and in PostgreSQL are stepped by minutes, an hour
// and a year, forth and back, and run fast and slow. A bucket must never grant more than its
// capacity and the leak of the time that its clock has shown.
package stall
