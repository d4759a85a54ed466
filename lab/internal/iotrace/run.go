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
	each   func(Event) bool
	done   bool
	killed bool
}

// ErrKilled is the error of Run if its [Fault] has killed the child. The Process must be closed
// then.
var ErrKilled = errors.New("iotrace: the child was killed")

// Run sends a request to the child and calls each with the child's events, until the child sends
// [Done]. dir is the directory that is watched; it must be absolute and without symbolic links. f
// may be nil. If each returns false for a [Note], the child's message fails with ECANCELED. Run
// returns the number of calls that f made fail.
func (p *Process) Run(dir string, request []byte, f *Fault, each func(Event) bool) (failed int, err error) {
	r := &run{
		p: p, dir: dir, files: make(map[uint64]int), names: make(map[string]int),
		faults: faults{Fault: f}, each: each,
	}
	if err := r.list(); err != nil {
		return 0, fmt.Errorf("iotrace: %w", err)
	}
	sent := make(chan error, 1)
	go func() { // the child reads a long request piece by piece
		_, err := p.in.Write(append(request, '\n'))
		sent <- err
	}()
	for !r.done && err == nil {
		err = r.step()
	}
	if r.killed && p.ended {
		_ = p.in.Close() // ends the write of the rest of the request
		return r.faults.failed, ErrKilled
	}
	if err == nil {
		err = <-sent
	}
	if err != nil {
		err = fmt.Errorf("iotrace: %w", err)
	}
	return r.faults.failed, err
}

// list numbers the files that are in the directory already.
func (r *run) list() error {
	var is syscall.Stat_t
	if err := syscall.Stat(r.dir, &is); err != nil {
		return err
	}
	r.inode, r.device = is.Ino, is.Dev
	files, err := os.ReadDir(r.dir)
	for _, f := range files {
		if err == nil {
			err = r.created(f.Name())
		}
	}
	return err
}

// created numbers a file.
func (r *run) created(name string) error {
	var st syscall.Stat_t
	if err := syscall.Stat(r.dir+"/"+name, &st); err != nil {
		return fmt.Errorf("the file that was created: %w", err)
	}
	r.files[st.Ino], r.names[name] = r.count, r.count
	r.count++
	return nil
}

// step handles the next stop of a thread.
func (r *run) step() error {
	var status syscall.WaitStatus
	tid, err := wait(-1, &status)
	if err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	_, known := r.p.threads[tid]
	if !known {
		r.p.threads[tid] = nil
	}
	switch {
	case status.Exited(), status.Signaled():
		delete(r.p.threads, tid)
		if tid == r.p.pid {
			r.p.ended = true
			return fmt.Errorf("the child ended: wait status %#x", uint32(status))
		}
		return nil
	case status.StopSignal() == syscall.SIGSTOP && !known: // every new thread begins so
		return r.resume(tid, 0)
	case status.StopSignal() == syscall.SIGTRAP && status.TrapCause() == eventSeccomp:
		return r.entered(tid)
	case status.StopSignal() == syscall.SIGTRAP|0x80:
		return r.stopped(tid)
	case status.StopSignal() == syscall.SIGTRAP:
		return r.resume(tid, 0) // an event of ptrace
	}
	return r.resume(tid, int(status.StopSignal()))
}

// resume lets a thread go on: to the end of its call, if the call concerns the directory, or else
// to its next call that the filter lets stop.
func (r *run) resume(tid, signal int) error {
	resume := syscall.PtraceCont
	if r.p.threads[tid] != nil || !r.p.filtered {
		resume = syscall.PtraceSyscall
	}
	return r.outlived("resume", resume(tid, signal))
}

// outlived returns the error of a call of ptrace, unless the thread is gone. A thread can be killed
// at any moment.
func (r *run) outlived(what string, err error) error {
	if err == nil || errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// entered handles the begin of a call that the filter lets stop.
func (r *run) entered(tid int) error {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
		return r.outlived("registers", err)
	}
	c, err := r.decode(&regs)
	if err != nil {
		return err
	}
	if c != nil {
		if err := r.begin(tid, c, &regs); err != nil {
			return err
		}
	}
	return r.resume(tid, 0)
}

// stopped handles the end of a call. Before the child has called [Filter], it handles any stop.
func (r *run) stopped(tid int) error {
	c := r.p.threads[tid]
	if c == nil && r.p.filtered {
		return r.resume(tid, 0)
	}
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(tid, &regs); err != nil {
		return r.outlived("registers", err)
	}
	switch {
	case c != nil:
		r.p.threads[tid] = nil
		if result := int64(regs.Rax); result >= 0 {
			if err := r.end(c, result); err != nil {
				return err
			}
		}
		if c.last {
			return r.kill()
		}
	case regs.Orig_rax == sysSeccomp:
		r.p.filtered = true
	case regs.Orig_rax == syscall.SYS_READ && regs.Rdi == 0:
		return errors.New("the child reads a request before it has called Filter")
	}
	return r.resume(tid, 0)
}

// begin decides the fate of a call that is about to be carried out.
func (r *run) begin(tid int, c *call, regs *syscall.PtraceRegs) error {
	verdict := pass
	if c.errno == 0 {
		verdict = r.faults.next(c.event.Kind, len(c.event.Data))
	}
	switch verdict {
	case die:
		return r.kill()
	case dieAfter, dieWithin:
		c.last = true
	case fail:
		c.errno = r.faults.Errno
		r.each(Event{Kind: Failed, Of: c.event.Kind, File: c.event.File})
	}
	switch {
	case c.errno != 0:
		regs.Orig_rax = ^uint64(0) // no call has this number, so nothing is carried out
		regs.Rax = -uint64(c.errno)
	case verdict == halve, verdict == dieWithin && c.event.Kind == Write:
		regs.Rdx /= 2
	}
	if c.errno == 0 {
		r.p.threads[tid] = c
	}
	return r.outlived("registers", syscall.PtraceSetRegs(tid, regs))
}

// kill kills the child.
func (r *run) kill() error {
	r.killed = true
	return r.outlived("kill", syscall.Kill(r.p.pid, syscall.SIGKILL))
}

// end reports a call that succeeded.
func (r *run) end(c *call, result int64) error {
	e := c.event
	switch e.Kind {
	case Create:
		if err := r.created(e.Name); err != nil {
			return err
		}
		e.File = r.names[e.Name]
	case Write:
		e.Data = e.Data[:result]
	case Link:
		e.File = r.names[e.Name]
		r.names[e.To] = e.File
		e.Name = ""
	case Rename:
		r.names[e.To] = r.names[e.Name]
		delete(r.names, e.Name)
	case Exchange:
		r.names[e.To], r.names[e.Name] = r.names[e.Name], r.names[e.To]
	case Remove:
		delete(r.names, e.Name)
	case Note:
		return nil // the note was reported when it began
	}
	r.each(e)
	return nil
}
