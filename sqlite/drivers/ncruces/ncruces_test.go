// Package ncruces tests package sqlite over github.com/ncruces/go-sqlite3.
package ncruces

import (
	"testing"

	_ "github.com/ncruces/go-sqlite3/driver"
	_ "modernc.org/sqlite" // the second driver

	"github.com/brimgo/brim/sqlite/drivers/drivertest"
)

var driver = drivertest.Driver{Name: "sqlite3", Immediate: true, Other: "sqlite", Pragmas: func(busy, synchronous string) string {
	return "_pragma=busy_timeout(" + busy + ")&_pragma=synchronous(" + synchronous + ")"
}}

func TestMain(m *testing.M) { drivertest.Main(m, driver) }

func TestDriver(t *testing.T) { drivertest.Run(t, driver) }
