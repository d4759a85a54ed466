package durable

import (
	"errors"
	"os"
	"syscall"
)

// Data makes the content of the file durable, without its times.
func Data(f *os.File) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if cerr := conn.Control(func(fd uintptr) {
		for {
			err = syscall.Fdatasync(int(fd))
			if !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	}); cerr != nil {
		return cerr
	}
	if err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}
