// Package bench measures brim and its peers in one run. It is a module of its own, so that the
// peers are not in the module graph of brim's users.
package bench
