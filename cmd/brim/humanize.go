package main

import (
	"time"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/humanize"
)

// The command writes durations, times, amounts and keys as the pages of package ui do.

func span(d time.Duration) string        { return humanize.Span(d) }
func short(d time.Duration) string       { return duration.Short(d) }
func clockTime(at, now time.Time) string { return humanize.Clock(at, now) }
func units(f float64) string             { return humanize.Units(f) }
func printable(key string) string        { return humanize.Key(key) }
func count[N ~int | ~int64 | ~uint64](n N, one string) string {
	return humanize.Count(n, one)
}
func oneLine(text string) string { return humanize.Line(text) }
