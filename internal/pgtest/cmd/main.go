// Command cmd runs another command, usually "go test ./...", with one PostgreSQL for all of its
// tests:
//
//	go run ./internal/pgtest/cmd [-c CONF]... -- COMMAND ARG...
//
// If BRIM_TEST_POSTGRES holds a URL, the tests use the server at that URL. Otherwise cmd starts a
// server and stops it at the end. Each -c is a line of configuration for that server, "-c
// fsync=off" for instance. If the command fails, and its output speaks of time that ran out, cmd
// prints the waits that the server's log tells of: for locks, slow statements and the disk. On an
// interrupt, cmd interrupts the command and cleans up.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"

	"github.com/brimgo/brim/internal/pgtest"
)

func main() {
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run() (code int, err error) {
	var conf []string
	flag.Func("c", "line of `configuration`; may be repeated", func(line string) error {
		conf = append(conf, line)
		return nil
	})
	flag.Parse()
	if flag.NArg() == 0 {
		return 64, errors.New(`there is no command; write one after --, for instance "go test -race ./..."`)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	env, out := os.Environ(), &output{}
	if os.Getenv("BRIM_TEST_POSTGRES") == "" {
		server, more, launchErr := pgtest.LaunchFor(conf...)
		if launchErr != nil {
			return 1, launchErr
		}
		defer func() {
			if code != 0 && out.late {
				err = errors.Join(err, tell(server))
			}
			err = errors.Join(err, server.Close())
		}()
		env = append(env, more...)
	}
	cmd := exec.CommandContext(ctx, flag.Arg(0), flag.Args()[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, out, os.Stderr
	runErr := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(runErr, &exit) {
		code, runErr = max(exit.ExitCode(), 1), nil // -1 if a signal killed it
	}
	return code, runErr
}

// late matches a line of a test to which a wait of the server may have mattered.
var late = regexp.MustCompile(`(?i)deadline|timeout|timed out|took |checked out|unavailable|unknown outcome`)

// output passes the output of the tests on and looks for such lines.
type output struct {
	line []byte // the last one, as far as it is written
	late bool
}

func (o *output) Write(p []byte) (int, error) {
	o.line = append(o.line, p...)
	end := bytes.LastIndexByte(o.line, '\n') + 1
	o.late = o.late || late.Match(o.line[:end])
	o.line = append(o.line[:0], o.line[end:]...)
	return os.Stdout.Write(p)
}

// tell prints the waits of the server: a test that ran out of time may have waited with them.
func tell(server *pgtest.Server) error {
	lines, err := server.Waits(40)
	if err == nil && len(lines) > 0 {
		fmt.Printf("the last waits of the server:\n%s\n", strings.Join(lines, "\n"))
	}
	return err
}
