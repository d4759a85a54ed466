// Package spendload puts loads on ledgers: requests that are sent several times,
// goroutines that race for one account, and benchmarks. The tests of this
// repository's ledgers share it.
package spendload
