package storetest_test

import (
	"testing"
	"time"

	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

// The test of a backend runs the suite. memory stands for the backend.
func ExampleRun() {
	_ = func(t *testing.T) { // TestConformance of the backend's package
		open := func(t *testing.T, clock func() time.Time) store.Store {
			t.Helper()
			s := memory.New(&memory.Options{Clock: clock})
			return s
		}
		storetest.Run(t, func(t *testing.T) store.Store { return open(t, nil) }, &storetest.Options{OpenAt: open})
	}
}
