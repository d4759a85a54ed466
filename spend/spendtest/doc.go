// Package spendtest is the conformance suite for ledgers of package spend. [Run]
// runs cases that each state a rule and its reason. [Random] runs random
// sequences of requests and compares every answer with a model that adds up all
// spends each time.
//
// A harness with requests of its own can use the [Model], too, and so judges by every rule that it
// knows. Whoever adds a request adds it to [Request], to the model as its documentation tells, to
// the actions of step.go, and as a case with its reason.
package spendtest
