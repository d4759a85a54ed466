// Package stall attacks brim with things that stand still.
//
// A client that holds a lease is stopped until the lease has expired, and goes on. A client is
// stopped while its transaction holds rows locked. The server is stopped under load. Every other
// caller must get a true answer in time, nothing may be lost or applied twice afterwards, and the
// processes together must not be granted more than the bucket allows.
package stall
