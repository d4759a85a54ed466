//go:build !linux

package boltfile

import "errors"

func diskOf(string) (Disk, error) { return Disk{}, errors.ErrUnsupported }
