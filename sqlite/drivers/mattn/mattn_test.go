// Package mattn tests package sqlite over github.com/mattn/go-sqlite3.
package mattn

import (
	"testing"

	_ "github.com/mattn/go-sqlite3"
	_ "modernc.org/sqlite" // the second driver

	"github.com/brimgo/brim/sqlite/drivers/drivertest"
)

var driver = drivertest.Driver{Name: "sqlite3", Other: "sqlite", Pragmas: func(busy, synchronous string) string {
	return "_busy_timeout=" + busy + "&_synchronous=" + synchronous
}}

func TestMain(m *testing.M) { drivertest.Main(m, driver) }

func TestDriver(t *testing.T) { drivertest.Run(t, driver) }
