// Package spendtest is the conformance suite for ledgers of package spend. [Run]
// runs cases that each state a rule and its reason. [Random] runs random
// sequences of requests and compares every answer with a model that adds up all
// spends each time.
package spendtest
