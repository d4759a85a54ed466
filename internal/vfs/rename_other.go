//go:build !linux

package vfs

import "errors"

// renameNew cannot rename a file without replacing another: the system has no portable call for
// it.
func renameNew(string, string) error { return errors.ErrUnsupported }

// exchange cannot swap the names of two files: the system has no portable call for it.
func exchange(string, string) error { return errors.ErrUnsupported }
