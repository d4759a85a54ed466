// Package outage counts the units that pass beyond a limit while a store is slow or down, and
// hostile clients attack them. It contains only tests.
//
// TestOutage is a table. In each row, many clients rush the same buckets three times, through a
// door of brim that fails open: httplimit, grpclimit, or local.Fallback. Most of them hang up after
// a random time. The fault comes in the first rush and goes in the third. Of each bucket of
// capacity c and leak rate r, no more than c + r T may pass by the store in the time T of the row,
// and as much again by the memory of each process. T is measured, so a slow machine cannot break
// that bound.
//
// TestFull fills a bounded store with the buckets of one attacker, and counts how many honest
// clients get through.
//
// TestCatch has the rows find doors without a limit.
//
// "make outage" runs the whole table, and "make test" a part of it.
package outage
