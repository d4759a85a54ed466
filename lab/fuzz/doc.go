// Package fuzz runs the fuzz targets of the main module.
//
// The harness finds all targets by itself. The quick run wants a seed corpus of each; the tests of
// the packages try the seeds. A night gives each target two minutes, which makes an hour a month.
// BRIM_FUZZ=40m is the time of a night in all: if it is too short for all targets, they take turns
// by the day of the year.
package fuzz
