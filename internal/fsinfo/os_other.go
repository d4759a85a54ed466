//go:build !linux

package fsinfo

import "errors"

func of(string) (Disk, error) { return Disk{}, errors.ErrUnsupported }
