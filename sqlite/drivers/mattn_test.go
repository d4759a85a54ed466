//go:build mattn

package drivers

import (
	_ "github.com/mattn/go-sqlite3"
	_ "modernc.org/sqlite" // the second driver
)

var driver = Driver{Name: "sqlite3", Other: "sqlite", Import: "github.com/mattn/go-sqlite3", Pragmas: func(busy, synchronous string) string {
	return "_busy_timeout=" + busy + "&_synchronous=" + synchronous
}}
