// Package mutate measures the tests of brim: it changes the code in one place at a time, and the
// tests must fail.
//
// A mutant is the code with one change: an operator replaced, a condition negated, a constant off
// by one, or a statement removed. A mutant is killed when a test fails or does not end in time, and
// survives otherwise. A mutant that does not compile is none.
//
// All mutants of a package are compiled at once. [Package.schema] rewrites the files so that every
// change stands behind a switch of package mutant, and "go test -c -overlay" compiles them into the
// test binaries. An environment variable then turns on one mutant per run. Only constants cannot be
// switched, so each of them is compiled by itself.
//
// A first run of every test without a mutant records the mutants that make a difference there. A
// mutant is run against these tests only, the tests that kill most in a second first. A mutant
// that the tests of its own package leave alive goes on to the tests of "make quick" that use
// the package. A test that takes more than ten seconds is divided into its subtests, and a
// mutant is run against a minute of tests at most.
//
// survivors.md names every survivor that is known, with the reason. A run fails if it finds others.
package mutate
