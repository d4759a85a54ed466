// Package bench measures brim and its peers in one run.
package bench
