package main

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"
)

func TestNote(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		name          string
		before, after time.Duration
		want          span
		why           string
	}{
		{name: "within a slot", before: 5200 * us, after: 5300 * us, want: span{5, 5}, why: "calls that are served from memory end at once"},
		{name: "over a border", before: 5900 * us, after: 6200 * us, want: span{5, 6}, why: "the units may have been admitted on either side"},
		{name: "near the end of a slot", before: 5800 * us, after: 5950 * us, want: span{5, 6}, why: "the server's clock may have been in the next slot already"},
		{name: "near its beginning", before: 6050 * us, after: 6100 * us, want: span{5, 6}, why: "the server's clock may have been in the slot before"},
		{name: "at the beginning of the run", before: 0, after: 10 * us, want: span{0, 0}, why: "no slot comes before the first"},
		{name: "after the end of the slots", before: 9500 * us, after: 9600 * us, want: span{9, 9}, why: "a late answer counts, too"},
	} {
		t.Run(c.name, func(t *testing.T) {
			caller := caller{unsure: 100 * us, slots: make([]uint32, 8), spans: admitted{}}
			caller.note(c.before, c.after, 3)
			if got, want := caller.all(), (admitted{c.want: 3}); !maps.Equal(got, want) {
				t.Errorf("%v, want %v\nwhy: %s", got, want, c.why)
			}
		})
	}
}

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name   string
		figure figure
		err    error
		word   string
		why    string
	}{
		{"reached", figure{required: "≤ 1", reached: true, bound: true}, nil, "yes", "a kept bound is no error"},
		{"slow", figure{required: "≥ 2"}, nil, "no", "a slow machine breaks no bound"},
		{"broken", figure{required: "≤ 1", bound: true}, errBroken, "BROKEN", "the exit status must report a broken bound"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			err := report(&out, []figure{c.figure, {name: "another", required: "≤ 1", reached: true, bound: true}})
			if !errors.Is(err, c.err) || !strings.Contains(out.String(), " "+c.word+" |") {
				t.Errorf("%v and %q; want %v and %q\nwhy: %s", err, out.String(), c.err, c.word, c.why)
			}
		})
	}
}
