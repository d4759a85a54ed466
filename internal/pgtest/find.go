package pgtest

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
)

// places lists where distributions put the server's programs, which are seldom on PATH.
var places = []string{
	"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
	"/usr/pgsql-*/bin",                  // Red Hat, with PostgreSQL's own packages
	"/usr/libexec/postgresql*",          // Alpine
	"/opt/homebrew/opt/postgresql*/bin", // Homebrew on ARM
	"/usr/local/opt/postgresql*/bin",    // Homebrew on Intel
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/usr/local/pgsql/bin", // built from source
}

// findBinaries returns the directory of initdb and postgres: the one on PATH, or else the newest
// version in places. It returns "" if there is none.
func findBinaries(lookPath func(string) (string, error), places []string) string {
	if initdb, err := lookPath("initdb"); err == nil {
		if dir := filepath.Dir(initdb); runnable(dir) {
			return dir
		}
	}
	var dirs []string
	for _, pattern := range places {
		found, err := filepath.Glob(pattern)
		if err != nil {
			continue // a malformed pattern, which the tests of this package would show
		}
		dirs = append(dirs, slices.DeleteFunc(found, func(dir string) bool { return !runnable(dir) })...)
	}
	if len(dirs) == 0 {
		return ""
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return cmp.Compare(major(b), major(a)) })
	return dirs[0]
}

func runnable(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

var number = regexp.MustCompile(`\d+`)

// major returns the last number in a path like /usr/lib/postgresql/17/bin, 0 if there is none.
func major(dir string) int {
	all := number.FindAllString(dir, -1)
	if len(all) == 0 {
		return 0
	}
	n, err := strconv.Atoi(all[len(all)-1])
	if err != nil {
		return 0
	}
	return n
}

// findDocker reports whether a Docker daemon answers.
func findDocker() bool {
	return exec.Command("docker", "version", "--format", "{{.Server.Version}}").Run() == nil
}

// missing returns an error that says how to provide a PostgreSQL on this system.
func missing() error {
	how := "install PostgreSQL 14 or later (initdb and postgres), or Docker"
	switch runtime.GOOS {
	case "darwin":
		how = `run "brew install postgresql@17", or start Docker`
	case "linux":
		how = `install PostgreSQL 14 or later ("apt-get install postgresql", ` +
			`"dnf install postgresql-server", "apk add postgresql"), or start Docker`
	}
	return fmt.Errorf("no PostgreSQL to test against; %s, or set %s to the URL of a superuser", how, envURL)
}
