package memory_test

import (
	"testing"
	"time"

	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/store/storetest"
)

func TestConformance(t *testing.T) {
	at := func(t *testing.T, clock func() time.Time) store.Store {
		s := memory.New(&memory.Options{Clock: clock})
		return s
	}
	storetest.Run(t, func(t *testing.T) store.Store { return at(t, nil) }, &storetest.Options{
		OpenAt: at,
	})
}
