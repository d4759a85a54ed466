package redistest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// envRedis chooses the server; see the package comment.
const envRedis = "BRIM_TEST_REDIS"

// scheme begins the URL of a shared server.
const scheme = "redis://"

// sharedURL returns the URL in BRIM_TEST_REDIS, or "" if it holds none.
func sharedURL() string {
	if v := os.Getenv(envRedis); strings.HasPrefix(v, scheme) {
		return v
	}
	return ""
}

// findProgram returns the path of a server's program, and installs one if there is none. It logs
// the installation to w.
func findProgram(w io.Writer) (string, error) {
	if v := os.Getenv(envRedis); v != "" && !strings.HasPrefix(v, scheme) {
		path, err := exec.LookPath(v)
		if err != nil {
			return "", fmt.Errorf("%s is neither a URL that starts with %s nor a program: %w", envRedis, scheme, err)
		}
		return path, nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Geteuid() != 0 {
		return "", missing()
	}
	return install(apt, w)
}

// install installs the server by apt-get. It keeps the package from starting a server of its own.
func install(apt string, w io.Writer) (path string, err error) {
	fmt.Fprintln(w, "redistest: no Redis here: running apt-get update, then apt-get install redis-server")
	// Debian's packages ask this program before they start a service; 101 forbids it.
	const policy = "/usr/sbin/policy-rc.d"
	if _, err := os.Stat(policy); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(policy, []byte("#!/bin/sh\nexit 101\n"), 0o755); err != nil {
			return "", err
		}
		defer func() { err = errors.Join(err, os.Remove(policy)) }()
	}
	for _, args := range [][]string{
		{"-q", "-o", "DPkg::Lock::Timeout=300", "update"},
		{"-q", "-y", "-o", "DPkg::Lock::Timeout=300", "install", "--no-upgrade", "--no-install-recommends", "redis-server"},
	} {
		cmd := exec.Command(apt, args...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("apt-get %v: %w\n%s", args, err, tail(out))
		}
	}
	return exec.LookPath("redis-server")
}

// missing returns an error that says how to provide a Redis on this system.
func missing() error {
	how := "install Redis 6.2 or later, or Valkey"
	switch runtime.GOOS {
	case "darwin":
		how = `run "brew install redis"`
	case "linux":
		how = `install Redis 6.2 or later ("apt-get install redis-server", "dnf install redis", "apk add redis") or Valkey`
	}
	return fmt.Errorf("no Redis to test against; %s, or set %s to the program of a server", how, envRedis)
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }
