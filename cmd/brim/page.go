package main

import (
	"context"
	"fmt"
	"iter"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/internal/uiapi"
)

// pageStore is the annotation of commands that take the address of a page as their store.
const pageStore = "page"

// takesPage marks a command that takes the address of a page as its store.
func takesPage(cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{pageStore: "yes"}
	return cmd
}

// notThere is the error of another command that got the address of a page.
func notThere() error {
	return usagef("--store is the address of a page, which only list, state, doctor, reset, block and unblock look into: " +
		"brim has no server protocol, and decides and explains only in the program that has the store open; " +
		"its page explains declined spends; to decide from many programs, share the buckets through PostgreSQL or Redis")
}

// page returns the client of the page that --store names, or nil if --store names another store.
func (a *app) page() (*uiapi.Client, error) {
	if !uiapi.IsAddress(a.store) {
		return nil, nil
	}
	c, err := uiapi.NewClient(a.store, os.Getenv("BRIM_TOKEN"))
	if err != nil {
		return nil, usagef("--store: %w", err)
	}
	return c, nil
}

// stateOf returns the answer of the page that --store names, or that of another store.
func (a *app) stateOf(
	ctx context.Context, o opening,
	ofPage func(*uiapi.Client) (brim.State, error), ofStore func(*brim.Limiter) (brim.State, error),
) (st brim.State, err error) {
	page, err := a.page()
	switch {
	case err != nil:
		return st, err
	case page != nil:
		return ofPage(page)
	}
	err = a.with(ctx, o, func(_ *opened, lim *brim.Limiter) (err error) {
		st, err = ofStore(lim)
		return err
	})
	return st, err
}

// listPage prints the buckets that a page lists. The page shares one listing among all who look, so
// the listing has an age.
func (a *app) listPage(ctx context.Context, page *uiapi.Client, prefix string, order func(a, b brim.Entry) int, rows int) error {
	l, entries, err := page.List(ctx, prefix)
	if err != nil {
		return err
	}
	if err := a.list(entriesOf(l, entries), order, rows); err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "brim: the listing is %s old\n", span(time.Duration(l.Age*float64(time.Second)).Truncate(time.Millisecond)))
	if l.Listed < l.Buckets {
		fmt.Fprintf(a.stderr, "brim: the page lists the %d fullest of %s; state finds the others\n", l.Listed, count(l.Buckets, "bucket"))
	}
	return nil
}

// listRefused prints the buckets that a page has seen refuse, at most rows of them unless rows
// is 0.
func (a *app) listRefused(ctx context.Context, page *uiapi.Client, prefix string, rows int) error {
	list, err := page.Refused(ctx, prefix)
	if err != nil {
		return err
	}
	if rows > 0 {
		list = list[:min(rows, len(list))]
	}
	if a.json {
		for _, r := range list {
			if err := a.printJSON(r); err != nil {
				return err
			}
		}
		return nil
	}
	t := table.New(table.Left("KEY"), table.Right("REFUSED/S"), table.Right("IN 10 MIN"), table.Left("SINCE"), table.Left("LAST"), table.Left("BLOCKED UNTIL"))
	for _, r := range list {
		since, blocked := "10 min or longer", ""
		if !r.Since.IsZero() {
			since = r.Since.Format(time.TimeOnly)
		}
		if !r.BlockedUntil.IsZero() {
			blocked = clockTime(r.BlockedUntil, r.Last)
		}
		t.Add(printable(r.Key), units(math.Round(10*r.Rate)/10), strconv.FormatUint(r.Refused, 10), since, r.Last.Format(time.TimeOnly), blocked)
	}
	if len(list) == 0 {
		_, err = fmt.Fprintln(a.stdout, "nothing was refused in the last ten minutes")
		return err
	}
	a.screen.clip(t)
	return a.printTables(t)
}

// entriesOf returns the buckets of a page, and then an error if damaged ones are missing.
func entriesOf(l uiapi.Listing, entries iter.Seq2[uiapi.Entry, error]) iter.Seq2[brim.Entry, error] {
	return func(yield func(brim.Entry, error) bool) {
		for e, err := range entries {
			if !yield(brim.Entry{Key: e.Key, State: e.State()}, err) {
				return
			}
		}
		if l.Damaged {
			yield(brim.Entry{}, fmt.Errorf("%w: buckets that cannot be read are missing; see brim doctor", brim.ErrCorrupt))
		}
	}
}
