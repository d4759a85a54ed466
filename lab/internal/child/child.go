// Package child runs a part of a harness in a process of its own, which can be killed or stopped.
// The process is this program again. Its methods are called by net/rpc through pipes.
package child

import (
	"fmt"
	"io"
	"net/rpc"
	"os"
	"os/exec"
)

// variable is the environment variable that makes this program a child and names its work.
const variable = "BRIM_LAB_CHILD"

// pipes connect a process with its parent, or with a child.
type pipes struct{ in, out *os.File }

func (p pipes) Write(b []byte) (int, error) { return p.out.Write(b) }

// Close ends the stream that the other side reads.
func (p pipes) Close() error { return p.out.Close() }

// Read is not called again after an error.
func (p pipes) Read(b []byte) (int, error) {
	n, err := p.in.Read(b)
	if err != nil {
		_ = p.in.Close()
	}
	return n, err
}

// Serve does nothing in a parent. In a child it has the parent call the methods of the work that
// the parent has named, closes the work when the parent has ended the calls, and ends the process.
// A program, or a test binary, calls it first of all.
func Serve(works map[string]io.Closer) {
	name := os.Getenv(variable)
	if name == "" {
		return
	}
	server := rpc.NewServer()
	err := server.RegisterName(name, works[name])
	if err == nil {
		server.ServeConn(pipes{os.Stdin, os.Stdout})
		err = works[name].Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Process is a child.
type Process struct {
	cmd    *exec.Cmd
	work   string
	client *rpc.Client
}

// Start starts a child with a work, and calls the work's method Open with a setting.
func Start(work string, setting any) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	theirIn, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirIn.Close() }()
	in, theirOut, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = theirOut.Close() }()
	p := &Process{cmd: exec.Command(self), work: work}
	p.cmd.Env = append(os.Environ(), variable+"="+work, "GORACE=atexit_sleep_ms=0")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirIn, theirOut, os.Stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.client = rpc.NewClient(pipes{in, out})
	if err := p.Call("Open", setting, nil); err != nil {
		p.Kill()
		return nil, fmt.Errorf("%s.Open of a child: %w", work, err)
	}
	return p, nil
}

// Call calls a method of the work. Any number of goroutines may call it at once. An error that is
// no [rpc.ServerError] tells that the process has ended without an answer.
func (p *Process) Call(method string, in, out any) error {
	return p.client.Call(p.work+"."+method, in, out)
}

// Signal sends a signal to the process.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Kill kills the process and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	_ = p.client.Close()
}

// Close has the process close its work and end.
func (p *Process) Close() error {
	if err := p.client.Close(); err != nil {
		return err
	}
	return p.cmd.Wait()
}
