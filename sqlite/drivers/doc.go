// Package drivers tests packages sqlite and sqliteledger over drivers of SQLite. A binary has one
// copy of SQLite, as the programs of users do: modernc's, or by the build tag mattn or ncruces that
// of another driver. Both of these have modernc's as a second one, which they refuse for the same
// file.
package drivers
