//go:build !linux

package bolt

import "errors"

// renameNew would rename a file and fail if there is one of the new name; there is no portable way.
func renameNew(string, string) error { return errors.ErrUnsupported }
