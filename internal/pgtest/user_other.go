//go:build !unix

package pgtest

import (
	"errors"
	"os/exec"
)

func detach(*exec.Cmd) {}

func unprivileged(*exec.Cmd, string) error {
	return errors.New("starting PostgreSQL needs a Unix; set BRIM_TEST_POSTGRES to the URL of a server")
}
