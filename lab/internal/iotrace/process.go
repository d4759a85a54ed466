//go:build linux && amd64

package iotrace

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// Process is a traced child. Only the goroutine that called [Start] may use it: ptrace is bound to
// one thread of the system.
type Process struct {
	pid     int
	in      *os.File      // the child's standard input
	mem     *os.File      // the child's memory
	threads map[int]*call // the call that a thread is in, if it concerns the directory
	// filtered is set when the child has called [Filter]. Until then, threads stop at all calls.
	filtered bool
	ended    bool // the child has ended by itself, or was killed by a [Fault]
}

// Start starts a program that calls [Filter] and then reads requests from its standard input, one a
// line. It binds the calling goroutine to its thread until Close. A goroutine can have one Process
// at a time.
func Start(argv, env []string) (*Process, error) {
	runtime.LockOSThread()
	p, err := start(argv, env)
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("iotrace: start %s: %w", argv[0], err)
	}
	return p, nil
}

func start(argv, env []string) (*Process, error) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirs.Close() }()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	defer func() { _ = null.Close() }()
	child, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Env:   env,
		Files: []*os.File{theirs, os.Stdout, os.Stderr, null},
		Sys:   &syscall.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		_ = ours.Close()
		return nil, err
	}
	p := &Process{pid: child.Pid, in: ours, threads: make(map[int]*call)}
	_ = child.Release() // p waits for the child itself
	if err := p.attach(); err != nil {
		_ = p.kill()
		return nil, err
	}
	return p, nil
}

// Options and events of ptrace, from linux/ptrace.h.
const (
	traceSysGood = 0x1
	traceClone   = 0x8
	traceExec    = 0x10
	traceFork    = 0x2
	traceSeccomp = 0x80
	exitKill     = 0x100000

	eventSeccomp = 7
	waitThread   = 0x20000000 // __WNOTHREAD: only children of the calling thread
)

// attach waits until the child has started the program, and has it stop at calls of the system.
func (p *Process) attach() (err error) {
	var status syscall.WaitStatus
	if _, err := wait(p.pid, &status); err != nil {
		return err
	}
	if !status.Stopped() {
		return fmt.Errorf("the program did not start: wait status %#x", uint32(status))
	}
	if p.mem, err = os.Open(fmt.Sprintf("/proc/%d/mem", p.pid)); err != nil {
		return err
	}
	if err := syscall.PtraceSetOptions(p.pid, traceSysGood|traceClone|traceFork|traceExec|traceSeccomp|exitKill); err != nil {
		return err
	}
	p.threads[p.pid] = nil
	return syscall.PtraceSyscall(p.pid, 0)
}

// Close kills the child and releases the goroutine's thread.
func (p *Process) Close() error {
	defer runtime.UnlockOSThread()
	return p.kill()
}

func (p *Process) kill() error {
	_ = p.in.Close()
	if p.mem != nil {
		_ = p.mem.Close()
	}
	if p.ended {
		return nil
	}
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("iotrace: kill: %w", err)
	}
	for {
		var status syscall.WaitStatus
		pid, err := wait(-1, &status)
		switch {
		case errors.Is(err, syscall.ECHILD):
			return nil
		case err != nil:
			return fmt.Errorf("iotrace: wait: %w", err)
		case pid == p.pid && (status.Exited() || status.Signaled()):
			return nil
		}
	}
}

// wait waits for a thread of the child to stop or to end.
func wait(pid int, status *syscall.WaitStatus) (int, error) {
	for {
		got, err := syscall.Wait4(pid, status, syscall.WALL|waitThread, nil)
		if !errors.Is(err, syscall.EINTR) {
			return got, err
		}
	}
}
