//go:build !linux

package durable

import "os"

// Data makes the content of the file durable.
func Data(f *os.File) error { return f.Sync() }
