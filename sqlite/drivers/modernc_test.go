//go:build !mattn && !ncruces

package drivers

import (
	_ "modernc.org/sqlite"
)

var driver = Driver{Name: "sqlite", Import: "modernc.org/sqlite", Pragmas: func(busy, synchronous string) string {
	return "_pragma=busy_timeout(" + busy + ")&_pragma=synchronous(" + synchronous + ")"
}}
