package main

import (
	"time"

	"github.com/brimgo/brim/internal/show"
)

// The command writes durations, times, amounts and keys as the pages of package ui do.

func span(d time.Duration) string        { return show.Span(d) }
func short(d time.Duration) string       { return show.Short(d) }
func clockTime(at, now time.Time) string { return show.Clock(at, now) }
func units(f float64) string             { return show.Units(f) }
func printable(key string) string        { return show.Key(key) }
