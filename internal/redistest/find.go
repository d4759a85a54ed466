package redistest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/supervisor"
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
	path, err := supervisor.Find(w, "redis-server", "redis-server", "valkey-server")
	if errors.Is(err, exec.ErrNotFound) {
		err = missing()
	}
	return path, err
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

// Before7 reports whether the program that tests start is a Redis older than 7.
func Before7(t testing.TB) bool {
	t.Helper()
	program, err := findProgram(os.Stderr)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	out, err := exec.Command(program, "--version").Output() // "Redis server v=6.2.16 sha=..."
	if err != nil {
		t.Fatalf("redistest: %s --version: %v", program, err)
	}
	var major int
	if _, err := fmt.Sscanf(string(out), "Redis server v=%d.", &major); err != nil {
		return false // Valkey began at 7.2
	}
	return major < 7
}

// Enabled returns the lines of configuration that let clients use a feature, "debug-command" or
// "protected-configs". A Redis older than 7 knows no such line, and forbids neither.
func Enabled(t testing.TB, features ...string) (conf []string) {
	t.Helper()
	if Before7(t) {
		return nil
	}
	for _, name := range features {
		conf = append(conf, "enable-"+name+" yes")
	}
	return conf
}
