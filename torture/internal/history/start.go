//go:build linux && amd64

package history

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/brimgo/brim/torture/internal/iotrace"
)

// childEnv, in the environment, makes a test binary the child.
const childEnv = "BRIM_TORTURE_CHILD"

// ServeAsChild carries out the requests of the parent and ends the process, if this process is the
// child. A program that calls [Start] must call ServeAsChild first of all.
func ServeAsChild() {
	if os.Getenv(childEnv) == "" {
		return
	}
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Start starts this program again as the traced child.
func Start() (*iotrace.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// One processor has the child do one thing at a time, and so more of them in a second.
	return iotrace.Start([]string{self}, append(os.Environ(), childEnv+"=1", "GOMAXPROCS=1"))
}

// Run has the child carry out a request: see [iotrace.Process.Run].
func Run(p *iotrace.Process, req Request, f *iotrace.Fault, each func(iotrace.Event)) (failed int, err error) {
	order, err := json.Marshal(req)
	if err != nil {
		return 0, err
	}
	return p.Run(req.Dir, order, f, each)
}
