package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// childEnv is the environment variable that makes this program a process that works for another one
// of it. Its value is the name of the work.
const childEnv = "BRIM_BENCH_CHILD"

// children are the works. A process reads orders, writes answers, and ends when its input ends.
var children = map[string]func(ctx context.Context, args []string, in io.Reader, out io.Writer) error{
	"leases": leaseChild,
	"gets":   getChild,
}

// child is such a process.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	*gob.Encoder
	*gob.Decoder
}

func startChild(ctx context.Context, work string, args ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), childEnv+"="+work), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &child{cmd, in, gob.NewEncoder(in), gob.NewDecoder(out)}, cmd.Start()
}

// answer reads an answer.
func (c *child) answer(to any) error {
	if err := c.Decode(to); err != nil {
		return fmt.Errorf("a process gave no answer: %w", err)
	}
	return nil
}

// close waits for the process.
func (c *child) close() error { return errors.Join(c.in.Close(), c.cmd.Wait()) }

// obey decodes orders of the type O until the input ends, and has do answer them.
func obey[O, A any](in io.Reader, out io.Writer, do func(O) (A, error)) error {
	orders, answers := gob.NewDecoder(in), gob.NewEncoder(out)
	for {
		var o O
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		a, err := do(o)
		if err == nil {
			err = answers.Encode(a)
		}
		if err != nil {
			return err
		}
	}
}
