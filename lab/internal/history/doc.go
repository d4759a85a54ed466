// Package history makes histories of calls on a bolt store, carries them out, and knows the exact
// content that the store must have after each call.
//
// A history comes from a seed. Its clock stands still but for whole seconds, its limits leak whole
// units, and one goroutine calls the store, so that the same history makes the same calls of the
// system in every run. The [Model] is written from the documentation of brim, and shares no code
// with the stores.
package history
