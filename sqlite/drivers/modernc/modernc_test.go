// Package modernc tests package sqlite over modernc.org/sqlite.
package modernc

import (
	"testing"

	_ "modernc.org/sqlite"

	"github.com/brimgo/brim/sqlite/drivers/drivertest"
)

var driver = drivertest.Driver{Name: "sqlite", Pragmas: func(busy, synchronous string) string {
	return "_pragma=busy_timeout(" + busy + ")&_pragma=synchronous(" + synchronous + ")"
}}

func TestMain(m *testing.M) { drivertest.Main(m, driver) }

func TestDriver(t *testing.T) { drivertest.Run(t, driver) }

func BenchmarkDriver(b *testing.B) { drivertest.Bench(b, driver) }
