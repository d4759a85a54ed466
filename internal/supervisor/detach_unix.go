//go:build unix

package supervisor

import (
	"os/exec"
	"syscall"
)

// detach keeps the terminal's signals from cmd: an interrupt ends the test, and cmd notices that
// end.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
