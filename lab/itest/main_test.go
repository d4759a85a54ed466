package itest

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/testcontainers/testcontainers-go"
)

// kind is a kind of server.
type kind string

const (
	postgreSQL   kind = "PostgreSQL"
	redisCluster kind = "Redis Cluster"
)

// supported are the versions that are tested of each kind of server, as image.sh takes them.
var supported = map[kind][]string{
	postgreSQL:   {"postgres 14", "postgres 15", "postgres 16", "postgres 17", "postgres 18"},
	redisCluster: {"redis 6.2", "redis 7", "redis 8", "valkey 9"},
}

// version is a version of a server, by the name of its program and a number. Either image is the
// name of its image, or missing tells why it has none.
type version struct {
	kind                         kind
	name, number, image, missing string
}

func (v version) String() string { return v.name + " " + v.number }

// versions are the supported versions. TestMain sets it.
var versions []version

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run finds the images, runs the tests with them and reports which versions were tested.
func run(m *testing.M) int {
	none, all := false, true
	for _, k := range []kind{postgreSQL, redisCluster} {
		available := 0
		for _, one := range supported[k] {
			v := findImage(k, one)
			versions = append(versions, v)
			if v.missing == "" {
				available++
			}
		}
		none = none || available == 0
		all = all && available == len(supported[k])
	}
	report(os.Stderr, "will run")
	if none {
		fmt.Fprintln(os.Stderr, "itest: PostgreSQL or Redis has no image of any version")
		return 1
	}
	if !all && os.Getenv("BRIM_ITEST_ALL") != "" {
		fmt.Fprintln(os.Stderr, "itest: BRIM_ITEST_ALL asks for an image of every version")
		return 1
	}
	if err := chooseReaper(); err != nil {
		fmt.Fprintln(os.Stderr, "itest:", err)
		return 1
	}
	code := m.Run()
	report(os.Stderr, "ran")
	return code
}

// findImage asks image.sh for an image of this version. The script reports its progress on stderr.
func findImage(k kind, one string) version {
	v := version{kind: k}
	v.name, v.number, _ = strings.Cut(one, " ")
	var progress bytes.Buffer
	cmd := exec.Command("./image.sh", v.name, v.number)
	cmd.Stderr = io.MultiWriter(os.Stderr, &progress)
	out, err := cmd.Output()
	if err == nil {
		v.image = strings.TrimSpace(string(out))
		return v
	}
	lines := strings.Split(strings.TrimSpace(progress.String()), "\n")
	v.missing = cmp.Or(strings.TrimPrefix(lines[len(lines)-1], "image.sh: "), err.Error())
	return v
}

// report writes one line for each version.
func report(w io.Writer, verb string) {
	for _, v := range versions {
		if v.missing == "" {
			fmt.Fprintf(w, "itest: %s: %s with %s\n", v, verb, v.image)
		} else {
			fmt.Fprintf(w, "itest: %s: not tested: %s\n", v, v.missing)
		}
	}
}

// chooseReaper switches off the reaper of testcontainers if Docker neither has its image nor can
// pull it. It respects a choice that the environment makes. Call it before the first container.
func chooseReaper() error {
	const disable = "TESTCONTAINERS_RYUK_DISABLED"
	if os.Getenv(disable) != "" {
		return nil
	}
	image := testcontainers.ReaperDefaultImage //nolint:staticcheck // no other exported name tells it
	if exec.Command("docker", "image", "inspect", image).Run() == nil {
		return nil
	}
	if exec.Command("docker", "pull", image).Run() == nil {
		return nil
	}
	fmt.Fprintf(os.Stderr, "itest: %s cannot be pulled: %s=true\n", image, disable)
	return os.Setenv(disable, "true")
}
