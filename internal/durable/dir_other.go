//go:build !((darwin || dragonfly || freebsd || linux || netbsd || openbsd) && !android)

package durable

// Dir does nothing: the system has no portable call to make the names in a directory durable.
func Dir(string) error { return nil }
