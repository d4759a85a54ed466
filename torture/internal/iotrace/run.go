//go:build linux && amd64

package iotrace

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// run is the state of one run of the child.
type run struct {
	p      *Process
	dir    string
	inode  uint64 // of the directory
	device uint64
	files  map[uint64]int // numbers by inode
	names  map[string]int // numbers by name
	count  int            // of files created
	faults faults
	each   func(Event)
	done   bool
}

// Run sends a request to the child and calls each with the child's events, until the child sends
// [Done]. dir is the directory that is watched; it must be absolute, without symbolic links, and
// empty. f may be nil. Run returns the number of calls that f made fail.
func (p *Process) Run(dir string, request []byte, f *Fault, each func(Event)) (failed int, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, fmt.Errorf("iotrace: %w", err)
	}
	is := info.Sys().(*syscall.Stat_t)
	r := &run{
		p: p, dir: dir, inode: is.Ino, device: is.Dev,
		files: make(map[uint64]int), names: make(map[string]int),
		faults: faults{Fault: f}, each: each,
	}
	sent := make(chan error, 1)
	go func() { // the child reads a long request piece by piece, and stops at every read
		_, err := p.in.Write(append(request, '\n'))
		sent <- err
	}()
	for !r.done && err == nil {
		err = r.step()
	}
	if err == nil {
		err = <-sent
	}
	if err != nil {
		err = fmt.Errorf("iotrace: %w", err)
	}
	return r.faults.failed, err
}

// step handles the next stop of a thread.
func (r *run) step() error {
	var status syscall.WaitStatus
	tid, err := wait(-1, &status)
	if err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	t := r.p.threads[tid]
	if t == nil {
		t = &thread{}
		r.p.threads[tid] = t
		if status.Stopped() && status.StopSignal() == syscall.SIGSTOP { // every new thread begins so
			return resume(tid, 0)
		}
	}
	switch {
	case status.Exited(), status.Signaled():
		delete(r.p.threads, tid)
		if tid == r.p.pid {
			r.p.ended = true
			return fmt.Errorf("the child ended: wait status %#x", uint32(status))
		}
		return nil
	case status.StopSignal() == syscall.SIGTRAP|0x80:
		if err := r.stopped(tid, t); err != nil {
			return err
		}
		return resume(tid, 0)
	case status.StopSignal() == syscall.SIGTRAP:
		return resume(tid, 0) // an event of ptrace
	}
	return resume(tid, int(status.StopSignal()))
}

// resume lets a thread go on to its next call of the system. A thread may have been killed
// meanwhile.
func resume(tid, signal int) error {
	if err := syscall.PtraceSyscall(tid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("resume: %w", err)
	}
	return nil
}

// stopped handles the begin or the end of a call of the system.
func (r *run) stopped(tid int, t *thread) error {
	t.inside = !t.inside
	if !t.inside && t.call == nil {
		return nil
	}
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
		return fmt.Errorf("registers: %w", err)
	}
	if t.inside {
		c, err := r.decode(&regs)
		if c == nil || err != nil {
			return err
		}
		t.call = c
		return r.begin(tid, c, &regs)
	}
	c := t.call
	t.call = nil
	if c.errno != 0 {
		regs.Rax = -uint64(c.errno)
		return syscall.PtraceSetRegs(tid, &regs)
	}
	if result := int64(regs.Rax); result >= 0 {
		return r.end(c, result)
	}
	return nil
}

// begin decides the fate of a call that is about to be carried out.
func (r *run) begin(tid int, c *call, regs *syscall.PtraceRegs) error {
	class, ok := ClassOf(c.event.Kind)
	if !ok {
		return nil
	}
	switch r.faults.next(class, len(c.event.Data)) {
	case fail:
		c.errno = r.faults.Errno
		regs.Orig_rax = ^uint64(0) // no call has this number, so nothing is carried out
		return syscall.PtraceSetRegs(tid, regs)
	case halve:
		regs.Rdx /= 2
		return syscall.PtraceSetRegs(tid, regs)
	}
	return nil
}

// end reports a call that succeeded.
func (r *run) end(c *call, result int64) error {
	e := c.event
	switch e.Kind {
	case Create:
		var st syscall.Stat_t
		if err := syscall.Stat(r.dir+"/"+e.Name, &st); err != nil {
			return fmt.Errorf("the file that was created: %w", err)
		}
		e.File = r.count
		r.count++
		r.files[st.Ino], r.names[e.Name] = e.File, e.File
	case Write:
		e.Data = e.Data[:result]
	case Link:
		e.File = r.names[e.Name]
		r.names[e.To] = e.File
		e.Name = ""
	case Rename:
		r.names[e.To] = r.names[e.Name]
		delete(r.names, e.Name)
	case Remove:
		delete(r.names, e.Name)
	}
	r.each(e)
	return nil
}
