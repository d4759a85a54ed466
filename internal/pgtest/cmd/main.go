// Command cmd runs another command, as a rule "go test ./...", with one PostgreSQL for all of its tests, and says how many
// used it:
//
//	go run ./internal/pgtest/cmd [-c CONF]... -- COMMAND ARG...
//
// The server that BRIM_TEST_POSTGRES names is used if it is set. Each -c is a line of configuration for a server that is
// started, "-c fsync=off" for instance.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"

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
		return 64, errors.New("no command; one goes behind --, as in: go run ./internal/pgtest/cmd -- go test ./... -race")
	}
	names, err := os.CreateTemp("", "brim-pgtest-count-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, names.Close(), os.Remove(names.Name())) }()

	env := append(os.Environ(), "BRIM_TEST_POSTGRES_COUNT="+names.Name())
	if os.Getenv("BRIM_TEST_POSTGRES") == "" {
		server, launchErr := pgtest.Launch(conf...)
		if launchErr != nil {
			return 1, launchErr
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		env = append(env, "BRIM_TEST_POSTGRES="+server.URL())
	}
	cmd := exec.Command(flag.Arg(0), flag.Args()[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	runErr := cmd.Run()
	if exit := (*exec.ExitError)(nil); errors.As(runErr, &exit) {
		code, runErr = max(exit.ExitCode(), 1), nil // killed is -1
	}
	lines, err := os.ReadFile(names.Name())
	if err != nil {
		return code, errors.Join(runErr, err)
	}
	fmt.Printf("PostgreSQL tests run: %d\n", bytes.Count(lines, []byte("\n")))
	return code, runErr
}
