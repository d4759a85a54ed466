// Package broken runs the tests of the conformance suites: each suite must fail a list of stores,
// or of ledgers, with one defect each. The lists are tables in the tests of packages storetest and
// spendtest.
package broken
