package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/humanize"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/internal/uiapi"
	"github.com/brimgo/brim/store"
)

func (a *app) stateCommand() *cobra.Command {
	cmd := takesPage(newCommand("state"))
	limit := addLimit(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		key := args[0]
		var l brim.Limit
		if limit.given() {
			var err error
			if l, err = limit.limit(); err != nil {
				return err
			}
		}
		if err := store.ValidateKey(key); err != nil {
			return err
		}
		st, err := a.stateOf(cmd.Context(), opening{}, func(page *uiapi.Client) (brim.State, error) {
			return page.State(cmd.Context(), key, l)
		}, func(lim *brim.Limiter) (brim.State, error) {
			if limit.given() {
				return lim.State(cmd.Context(), l.For(key))
			}
			return lim.StateOf(cmd.Context(), key)
		})
		if err != nil {
			return err
		}
		return a.printState(key, st)
	}
	return cmd
}

// printState prints the state of a bucket that may not exist.
func (a *app) printState(key string, st brim.State) error {
	switch {
	case a.json:
		return a.printJSON(newStateJSON(key, st))
	case st.Capacity == 0 && st.BlockedUntil.IsZero():
		_, err := fmt.Fprintln(a.stdout, "there is no such bucket: it is empty, and no limit was ever used with it")
		return err
	}
	return a.describe(st)
}

// entryJSON is the form in which list --json prints a bucket.
type entryJSON struct {
	Key          string    `json:"key"`
	Level        float64   `json:"level"`
	Held         float64   `json:"held"`
	Capacity     float64   `json:"capacity"`
	LeakRate     float64   `json:"leak_rate"`
	Remaining    float64   `json:"remaining"`
	Share        float64   `json:"share"`         // of the capacity that is in use
	TimeToEmpty  *float64  `json:"time_to_empty"` // seconds; null if the bucket does not leak
	At           time.Time `json:"at"`
	Empties      time.Time `json:"empties,omitzero"`
	BlockedUntil time.Time `json:"blocked_until,omitzero"`
}

func (a *app) listCommand() *cobra.Command {
	var prefix, by string
	var rows int
	cmd := takesPage(newCommand("list"))
	cmd.Flags().StringVar(&prefix, "prefix", "", "only keys that begin with this text")
	cmd.Flags().StringVar(&by, "by", "key", "order: level, ratio, key, or refused of a page")
	cmd.Flags().IntVar(&rows, "rows", 0, "most buckets to list; 0 lists all")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		order, ok := orders[by]
		if !ok && by != "refused" {
			return usagef("--by is %q; it must be level, ratio, key or refused", by)
		}
		if rows < 0 {
			return usagef("--rows is %d; it must be positive, or 0 for all", rows)
		}
		page, err := a.page()
		switch {
		case err != nil:
			return err
		case page != nil && by == "refused":
			return a.listRefused(cmd.Context(), page, prefix, rows)
		case by == "refused":
			return usagef("--by refused needs the page of a program, https://..., as --store: a store keeps no refusals")
		case page != nil:
			return a.listPage(cmd.Context(), page, prefix, order, rows)
		}
		return a.with(cmd.Context(), opening{}, func(_ *opened, lim *brim.Limiter) error {
			return a.list(lim.List(cmd.Context(), prefix), order, rows)
		})
	}
	return cmd
}

// orders are the orders of list by the value of --by.
var orders = map[string]func(a, b brim.Entry) int{
	"key":   func(a, b brim.Entry) int { return cmp.Compare(a.Key, b.Key) },
	"level": func(a, b brim.Entry) int { return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(a.Key, b.Key)) },
	"ratio": func(a, b brim.Entry) int {
		return cmp.Or(cmp.Compare(share(b.State), share(a.State)), cmp.Compare(a.Key, b.Key))
	},
}

// share returns the share of the capacity that is in use.
func share(st brim.State) float64 { return (st.Level + st.Held) / st.Capacity }

// list prints buckets in the given order, and at most rows of them unless rows is 0.
func (a *app) list(entries iter.Seq2[brim.Entry, error], order func(a, b brim.Entry) int, rows int) error {
	var all []brim.Entry
	var damage error // which comes after all buckets that can be read
	for e, err := range entries {
		if errors.Is(err, brim.ErrCorrupt) {
			damage = err
			break
		}
		if err != nil {
			return err
		}
		all = append(all, e)
	}
	slices.SortFunc(all, order)
	if rows > 0 {
		all = all[:min(rows, len(all))]
	}
	out := bufio.NewWriter(a.stdout)
	t := table.New(table.Left("KEY"), table.Right("LEVEL"), table.Right("HELD"), table.Right("CAPACITY"), table.Right("SHARE"),
		table.Right("EMPTY IN"), table.Left("BLOCKED UNTIL"))
	for _, e := range all {
		if a.json {
			_ = writeJSON(out, entryJSON{
				Key: e.Key, Level: e.Level, Held: e.Held, Capacity: e.Capacity, LeakRate: e.LeakRate,
				Remaining: e.Remaining(), Share: share(e.State), TimeToEmpty: humanize.SecondsOrNull(e.TimeToEmpty()),
				At: e.At.UTC(), Empties: e.Empties, BlockedUntil: e.BlockedUntil,
			}) // Flush reports a failure
			continue
		}
		blocked := ""
		if !e.BlockedUntil.IsZero() {
			blocked = clockTime(e.BlockedUntil, e.At)
		}
		t.Add(printable(e.Key), units(e.Level), units(e.Held), units(e.Capacity), fmt.Sprintf("%.1f%%", 100*share(e.State)),
			span(e.TimeToEmpty()), blocked)
	}
	a.screen.clip(t)
	return cmp.Or(out.Flush(), a.printTables(t), damage)
}
