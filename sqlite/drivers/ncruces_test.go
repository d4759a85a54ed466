//go:build ncruces

package drivers

import (
	_ "github.com/ncruces/go-sqlite3/driver"
	_ "modernc.org/sqlite" // the second driver
)

var driver = Driver{Name: "sqlite3", Immediate: true, Other: "sqlite", Import: "github.com/ncruces/go-sqlite3/driver", Pragmas: func(busy, synchronous string) string {
	return "_pragma=busy_timeout(" + busy + ")&_pragma=synchronous(" + synchronous + ")"
}}
