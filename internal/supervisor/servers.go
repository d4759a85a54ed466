package supervisor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
)

// Find returns the path of the first of the programs that is on PATH. If there is none, it installs
// the package that has the first one, and logs that to w. The error is [exec.ErrNotFound] if the
// system has no apt-get or the process is not root.
func Find(w io.Writer, pkg string, programs ...string) (string, error) {
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	if err := Install(w, pkg); err != nil {
		return "", err
	}
	return exec.LookPath(programs[0])
}

// Install installs a package by apt-get, and keeps it from starting a server of its own. It logs
// that to w. The error is that of Find.
func Install(w io.Writer, name string) (err error) {
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return exec.ErrNotFound
	}
	fmt.Fprintf(w, "there is no %s here: running apt-get update, then apt-get install\n", name)
	// Debian's packages ask this program before they start a service; 101 forbids it.
	const policy = "/usr/sbin/policy-rc.d"
	if _, err := os.Stat(policy); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(policy, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.Remove(policy)) }()
	}
	for _, args := range [][]string{{"update"}, {"install", "-y", "--no-upgrade", "--no-install-recommends", name}} {
		cmd := exec.Command(apt, append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %v: %w\n%s", args, err, tail(out))
		}
	}
	return nil
}

// Explain adds the end of a server's log to an error.
func Explain(err error, log string) error {
	if err == nil {
		return nil
	}
	text, readErr := os.ReadFile(log)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	return fmt.Errorf("%w; the log ends with\n%s", err, tail(text))
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }

// FreePort returns a port of the loopback interface that is free now. If bus is above 0, the port
// that many further is free, too.
func FreePort(bus int) (int, error) {
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		addr, ok := l.Addr().(*net.TCPAddr)
		if err := l.Close(); err != nil || !ok {
			return 0, fmt.Errorf("listening on %v: %w", l.Addr(), err)
		}
		if bus == 0 {
			return addr.Port, nil
		}
		if other, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", addr.Port+bus)); err == nil {
			return addr.Port, other.Close()
		}
	}
	return 0, fmt.Errorf("no port is free together with the one %d above it", bus)
}
