// Package spendtest is the conformance suite of package spend: what every ledger must answer. [Run] has the cases that give a
// reason, and [Random] compares random sequences of requests with a model that adds everything up each time.
package spendtest
