//go:build !unix

package pgtest

import (
	"errors"
	"os/exec"
)

// Unprivileged fails: the programs that need it run on Unix only.
func Unprivileged(*exec.Cmd, string) error {
	return errors.New("pgtest starts PostgreSQL on Unix only; set BRIM_TEST_POSTGRES to the URL of a server")
}
