// Package records answers the calls of a store on the records that one transaction holds, for
// backends whose transactions are decided in Go: package bolt and package sqlite. Such a backend
// brings a [Table], and begins and ends the transactions.
package records
