//go:build linux && amd64

package iotrace

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stops lists the calls that decode looks at, but for reads. All others run at full speed.
var stops = [...]uint32{
	syscall.SYS_OPEN, syscall.SYS_OPENAT, syscall.SYS_WRITE, syscall.SYS_PWRITE64, syscall.SYS_FTRUNCATE, syscall.SYS_FSYNC, syscall.SYS_FDATASYNC, syscall.SYS_RENAME, syscall.SYS_RENAMEAT,
	sysRenameat2, syscall.SYS_LINK, syscall.SYS_LINKAT, syscall.SYS_UNLINK, syscall.SYS_UNLINKAT,
	syscall.SYS_MMAP, syscall.SYS_WRITEV, syscall.SYS_PWRITEV, sysPwritev2, syscall.SYS_FALLOCATE,
	syscall.SYS_SYNC_FILE_RANGE, syscall.SYS_SENDFILE, sysCopyFileRange, syscall.SYS_SPLICE, syscall.SYS_TRUNCATE,
}

// Filter has the system stop the calling program, a child of [Start], at the calls that the
// recorder looks at, and at no others: a stop costs more than most calls. Reads are many; without
// them, nothing is recorded of them, and none can fail. The child must call Filter before it reads
// its first request.
func Filter(reads bool) error {
	const number = 0 // the offset of the call's number in struct seccomp_data
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number}}
	calls := stops[:]
	if reads {
		calls = append(calls, syscall.SYS_PREAD64)
	}
	for i, call := range calls {
		program = append(program, unix.SockFilter{
			Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: uint8(len(calls) - i),
		})
	}
	program = append(program,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE},
	)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("iotrace: filter: %w", err)
	}
	all := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	failed, _, errno := syscall.Syscall(sysSeccomp, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&all)))
	if errno != 0 || failed != 0 { // TSYNC returns the thread that it could not reach
		return fmt.Errorf("iotrace: filter: %w (thread %d)", errno, failed)
	}
	return nil
}
