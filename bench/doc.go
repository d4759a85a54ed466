// Package bench measures brim against its peers, both in one run. It is a module of its own, so that what it compares with is
// in no user's module graph.
package bench
