package redistest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

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
