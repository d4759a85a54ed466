//go:build linux && amd64

package iotrace

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// call is a call of the system that concerns the directory.
type call struct {
	event Event
	errno syscall.Errno // if not 0, the call is not carried out and answers this error
	last  bool          // the child is killed when the call has been carried out
}

// Numbers of calls that package syscall lacks.
const (
	sysRenameat2     = 316
	sysSeccomp       = 317
	sysCopyFileRange = 326
	sysPwritev2      = 328

	renameExchange = 2 // a flag of renameat2
)

// decode returns the call at whose begin a thread stopped, or nil if it does not concern the
// directory.
func (r *run) decode(regs *syscall.PtraceRegs) (*call, error) {
	fd := int(int32(regs.Rdi))
	switch regs.Orig_rax {
	case syscall.SYS_OPEN:
		return r.open(regs.Rdi, int(regs.Rsi))
	case syscall.SYS_OPENAT:
		return r.open(regs.Rsi, int(regs.Rdx))
	case syscall.SYS_WRITE:
		if fd == NoteFD {
			return r.note(regs.Rsi, int(regs.Rdx))
		}
		return nil, r.forbid(fd, "write without an offset")
	case syscall.SYS_PWRITE64:
		return r.write(fd, regs.Rsi, int(regs.Rdx), int64(regs.R10))
	case syscall.SYS_PREAD64:
		return r.onFile(fd, Event{Kind: Read})
	case syscall.SYS_FTRUNCATE:
		return r.onFile(fd, Event{Kind: Resize, Offset: int64(regs.Rsi)})
	case syscall.SYS_FSYNC, syscall.SYS_FDATASYNC:
		return r.onFile(fd, Event{Kind: Sync})
	case syscall.SYS_RENAME:
		return r.move(Rename, regs.Rdi, regs.Rsi)
	case syscall.SYS_RENAMEAT:
		return r.move(Rename, regs.Rsi, regs.R10)
	case sysRenameat2:
		if regs.R8&renameExchange != 0 {
			return r.move(Exchange, regs.Rsi, regs.R10)
		}
		return r.move(Rename, regs.Rsi, regs.R10)
	case syscall.SYS_LINK:
		return r.move(Link, regs.Rdi, regs.Rsi)
	case syscall.SYS_LINKAT:
		return r.move(Link, regs.Rsi, regs.R10)
	case syscall.SYS_UNLINK:
		return r.remove(regs.Rdi)
	case syscall.SYS_UNLINKAT:
		return r.remove(regs.Rsi)
	case syscall.SYS_MMAP:
		if regs.Rdx&syscall.PROT_WRITE != 0 && regs.R10&syscall.MAP_SHARED != 0 {
			return nil, r.forbid(int(int32(regs.R8)), "a shared mapping for writing")
		}
	case syscall.SYS_WRITEV, syscall.SYS_PWRITEV, sysPwritev2, syscall.SYS_FALLOCATE, syscall.SYS_SYNC_FILE_RANGE,
		syscall.SYS_SENDFILE:
		return nil, r.forbid(fd, "call "+strconv.FormatUint(regs.Orig_rax, 10))
	case sysCopyFileRange, syscall.SYS_SPLICE:
		return nil, r.forbid(int(int32(regs.Rdx)), "call "+strconv.FormatUint(regs.Orig_rax, 10))
	case syscall.SYS_TRUNCATE:
		name, err := r.name(regs.Rdi)
		if name != "" {
			err = fmt.Errorf("the child truncates %q by name, which is not recorded", name)
		}
		return nil, err
	}
	return nil, nil
}

func (r *run) open(path uint64, flags int) (*call, error) {
	name, err := r.name(path)
	if name == "" || err != nil {
		return nil, err
	}
	if file, exists := r.names[name]; exists {
		if flags&syscall.O_TRUNC == 0 {
			return nil, nil
		}
		return &call{event: Event{Kind: Resize, File: file}}, nil
	}
	if flags&syscall.O_CREAT == 0 {
		return nil, nil
	}
	return &call{event: Event{Kind: Create, Name: name}}, nil
}

func (r *run) note(addr uint64, size int) (*call, error) {
	data := make([]byte, size)
	if _, err := r.p.mem.ReadAt(data, int64(addr)); err != nil {
		return nil, fmt.Errorf("the child's memory: %w", err)
	}
	switch string(data) {
	case Done:
		r.done = true
	case Heal:
		r.faults.healed = true
	default:
		e := Event{Kind: Note, Data: data}
		if !r.each(e) {
			return &call{event: e, errno: syscall.ECANCELED}, nil
		}
	}
	return nil, nil
}

func (r *run) write(fd int, addr uint64, size int, offset int64) (*call, error) {
	c, err := r.onFile(fd, Event{Kind: Write, Offset: offset})
	if c == nil || err != nil {
		return nil, err
	}
	c.event.Data = make([]byte, size)
	if _, err := r.p.mem.ReadAt(c.event.Data, int64(addr)); err != nil {
		return nil, fmt.Errorf("the child's memory: %w", err)
	}
	return c, nil
}

// onFile completes an event with the file behind a descriptor.
func (r *run) onFile(fd int, e Event) (*call, error) {
	st, ok := r.behind(fd)
	if !ok {
		return nil, nil
	}
	if st.Ino == r.inode {
		if e.Kind != Sync {
			return nil, nil
		}
		return &call{event: Event{Kind: SyncDir}}, nil
	}
	file, known := r.files[st.Ino]
	if known {
		e.File = file
		return &call{event: e}, nil
	}
	return nil, nil
}

// behind returns the file behind a descriptor, if it lies in the directory or was removed from it.
// The number of its inode alone does not tell: another file gets the number of a removed one.
func (r *run) behind(fd int) (st syscall.Stat_t, ok bool) {
	link := fmt.Sprintf("/proc/%d/fd/%d", r.p.pid, fd)
	if err := syscall.Stat(link, &st); err != nil || st.Dev != r.device {
		return st, false
	}
	path, err := os.Readlink(link)
	return st, err == nil && (path == r.dir || strings.HasPrefix(path, r.dir+"/"))
}

// forbid refuses a call that the recorder cannot describe, if it changes a file of the directory.
func (r *run) forbid(fd int, how string) error {
	if st, ok := r.behind(fd); ok {
		if file, known := r.files[st.Ino]; known {
			return fmt.Errorf("the child changes file %d by %s, which is not recorded", file, how)
		}
	}
	return nil
}

func (r *run) move(k Kind, from, to uint64) (*call, error) {
	old, err := r.name(from)
	if err != nil {
		return nil, err
	}
	name, err := r.name(to)
	switch {
	case err != nil:
		return nil, err
	case old == "" && name == "":
		return nil, nil
	case old == "" || name == "":
		return nil, fmt.Errorf("the child has %v lead into the directory or out of it, which is not recorded", k)
	}
	return &call{event: Event{Kind: k, Name: old, To: name}}, nil
}

func (r *run) remove(path uint64) (*call, error) {
	name, err := r.name(path)
	if _, exists := r.names[name]; !exists || err != nil {
		return nil, err
	}
	return &call{event: Event{Kind: Remove, Name: name}}, nil
}

// name returns the name within the directory of the path at an address of the child, or "" if the
// path leads elsewhere.
func (r *run) name(addr uint64) (string, error) {
	var path []byte
	for chunk := make([]byte, 256); !bytes.Contains(path, []byte{0}); addr += 256 {
		n, err := r.p.mem.ReadAt(chunk, int64(addr))
		if err != nil && (n == 0 || err != io.EOF) && !bytes.Contains(chunk[:n], []byte{0}) {
			return "", fmt.Errorf("the child's memory: %w", err)
		}
		path = append(path, chunk[:n]...)
	}
	path = path[:bytes.IndexByte(path, 0)]
	name, inside := strings.CutPrefix(string(path), r.dir+"/")
	if !inside {
		return "", nil
	}
	return name, nil
}
