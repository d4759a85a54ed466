package riverlimit

import (
	"os"
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
)

// TestMain is also the program of the processes that work jobs.
func TestMain(m *testing.M) {
	if os.Getenv(envWorker) != "" {
		os.Exit(workJobs())
	}
	pgtest.Main(m)
}
