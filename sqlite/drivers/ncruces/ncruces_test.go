// Package ncruces tests package sqlite over github.com/ncruces/go-sqlite3.
package ncruces

import (
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"

	"github.com/brimgo/brim/sqlite/drivers/drivertest"
)

func TestDriver(t *testing.T) {
	drivertest.Run(t, drivertest.Driver{Name: "sqlite3", Pragmas: func(busy, synchronous string) string {
		return "_pragma=busy_timeout(" + busy + ")&_pragma=synchronous(" + synchronous + ")"
	}})
}
