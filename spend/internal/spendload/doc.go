// Package spendload puts loads on ledgers: requests that are sent several times,
// and goroutines that race for one account. The tests of this repository's
// ledgers share it.
package spendload
