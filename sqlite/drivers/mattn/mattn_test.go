// Package mattn tests package sqlite over github.com/mattn/go-sqlite3.
package mattn

import (
	"testing"

	_ "github.com/mattn/go-sqlite3"

	"github.com/brimgo/brim/sqlite/drivers/drivertest"
)

func TestDriver(t *testing.T) {
	drivertest.Run(t, drivertest.Driver{Name: "sqlite3", Pragmas: func(busy, synchronous string) string {
		return "_busy_timeout=" + busy + "&_synchronous=" + synchronous
	}})
}
