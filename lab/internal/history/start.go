//go:build linux && amd64

package history

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/brimgo/brim/lab/internal/iotrace"
)

// childEnv, in the environment, makes a test binary the child. The value withReads has its reads
// recorded.
const (
	childEnv  = "BRIM_TORTURE_CHILD"
	withReads = "with reads"
)

// ServeAsChild carries out the requests of the parent and ends the process, if this process is the
// child. A program that calls [Start] must call ServeAsChild first of all.
func ServeAsChild() {
	kind := os.Getenv(childEnv)
	if kind == "" {
		return
	}
	err := iotrace.Filter(kind == withReads)
	if err == nil {
		err = serve()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Start starts this program again as the traced child. Reads of the child's files are recorded only
// if reads is true.
func Start(reads bool) (*iotrace.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	kind := "without reads"
	if reads {
		kind = withReads
	}
	// One processor has the child do one thing at a time, and so more of them in a second.
	return iotrace.Start([]string{self}, append(os.Environ(), childEnv+"="+kind, "GOMAXPROCS=1"))
}

// Run has the child carry out a request: see [iotrace.Process.Run].
func Run(p *iotrace.Process, req Request, f *iotrace.Fault, each func(iotrace.Event) bool) (failed int, err error) {
	order, err := json.Marshal(req)
	if err != nil {
		return 0, err
	}
	return p.Run(req.Dir, order, f, each)
}
