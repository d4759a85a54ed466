//go:build (darwin || dragonfly || freebsd || linux || netbsd || openbsd) && !android

package durable

import (
	"errors"
	"os"
	"syscall"
)

// Dir makes the names in a directory durable.
func Dir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil // the file system keeps names durable in its own way
	}
	return err
}
