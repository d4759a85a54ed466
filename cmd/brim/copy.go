package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/stores"
)

func (a *app) copyCommand() *cobra.Command {
	var from, to, prefix string
	var dry, bucketsOnly bool
	cmd := newCommand("copy")
	cmd.Flags().StringVar(&from, "from", "", "store to read, in the words of --store")
	cmd.Flags().StringVar(&to, "to", "", "store to write, in the words of --store")
	cmd.Flags().StringVar(&prefix, "prefix", "", "only keys that begin with this text")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "count the buckets, and write nothing")
	cmd.Flags().BoolVar(&bucketsOnly, "buckets-only", false, "copy the buckets although the source also has a ledger")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		source, target, err := copyPlaces(from, to)
		if err != nil {
			return err
		}
		return a.copy(cmd.Context(), source, target, copying{prefix: prefix, dry: dry, bucketsOnly: bucketsOnly})
	}
	return cmd
}

// copyPlaces reads --from and --to.
func copyPlaces(from, to string) (source, target place.Place, err error) {
	for _, f := range []struct {
		name, value string
		place       *place.Place
	}{{"--from", from, &source}, {"--to", to, &target}} {
		if f.value == "" {
			return source, target, usagef("%s is missing; name a store: a file, postgres://... or redis://...", f.name)
		}
		p, err := parsePlace(f.name, f.value)
		if err != nil {
			return source, target, err
		}
		if p.Kind() == place.Memory {
			return source, target, usagef("%s is memory:, which is empty and ends with the command; name a store that lasts", f.name)
		}
		*f.place = p
	}
	if source.Kind() == target.Kind() && from == to {
		return source, target, usagef("--from and --to are the same store")
	}
	return source, target, nil
}

// copying is one run of brim copy.
type copying struct {
	prefix           string
	dry, bucketsOnly bool
	progress         func(copied int64) // nil if nobody watches

	from, to store.Store
	copied   int64
	damage   error // of single buckets of the source
}

// copyJSON is the answer of copy --json.
type copyJSON struct {
	Copied int64 `json:"copied"` // with --dry-run: to be copied
	DryRun bool  `json:"dry_run"`
}

// copy opens both stores and copies the buckets.
func (a *app) copy(ctx context.Context, source, target place.Place, c copying) (err error) {
	from, err := a.open(ctx, source, opening{})
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	defer func() { err = cmp.Or(err, from.Close()) }()
	if !c.bucketsOnly {
		if err := refuseLedger(ctx, from.Store); err != nil {
			return err
		}
	}
	c.from = from
	if !c.dry {
		to, err := a.open(ctx, target, opening{create: true})
		if err != nil {
			return fmt.Errorf("--to: %w", err)
		}
		defer func() { err = cmp.Or(err, to.Close()) }()
		c.to = to
	}
	p := a.progress("copy")
	c.progress = func(n int64) { p.set(0, fmt.Sprintf("%d buckets", n)) }
	err = c.run(ctx)
	p.end()
	if err != nil && !errors.Is(err, store.ErrCorrupt) {
		fmt.Fprintf(a.stderr, "brim: %d buckets were copied; run the command again to complete the copy\n", c.copied)
		return err
	}
	words := fmt.Sprintf("copied: %d", c.copied)
	if c.dry {
		words = fmt.Sprintf("to be copied: %d", c.copied)
	}
	return cmp.Or(a.print(copyJSON{Copied: c.copied, DryRun: c.dry}, words), err)
}

// refuseLedger returns an error if the store has a ledger with accounts.
func refuseLedger(ctx context.Context, s *stores.Store) error {
	if s.Bolt == nil && s.Postgres == nil {
		return nil
	}
	l, err := ledgerIn(s)
	if err != nil {
		return err
	}
	accounts, err := l.Accounts(ctx, "", "", 1)
	if err = errors.Join(err, l.Close()); err == nil && len(accounts) > 0 {
		err = usagef("the source has a ledger of spends, which copy does not carry over: its entries and the answers to " +
			"its requests are true only together, at one moment and on one clock; move it with the tools of its backend " +
			"(pg_dump, or a copy of the closed file), or give --buckets-only to leave it behind")
	}
	return err
}

// copyPage is the number of buckets that are read, removed and written at a time.
const copyPage = 500

// run copies the buckets. An error that is ErrCorrupt means that all readable buckets were copied.
func (c *copying) run(ctx context.Context) error {
	var keys []string
	var failed error
	err := c.from.Visit(ctx, c.prefix, func(e store.Entry) bool {
		if keys = append(keys, e.Key); len(keys) == copyPage {
			failed = c.page(ctx, keys)
			keys = keys[:0]
		}
		return failed == nil
	})
	if errors.Is(err, store.ErrCorrupt) {
		c.damage, err = cmp.Or(c.damage, err), nil
	}
	if err = cmp.Or(failed, err); err == nil {
		err = c.page(ctx, keys)
	}
	return cmp.Or(err, c.damage)
}

// page copies the buckets of some keys. It reads them anew, all at one moment, because the listing
// may be some time old.
func (c *copying) page(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	buckets := make([]store.Bucket, len(keys))
	for i, key := range keys {
		buckets[i].Key = key
	}
	states, err := c.from.Read(ctx, buckets...)
	switch {
	case errors.Is(err, store.ErrCorrupt) && len(keys) > 1: // of one of them
		half := len(keys) / 2
		return cmp.Or(c.page(ctx, keys[:half]), c.page(ctx, keys[half:]))
	case errors.Is(err, store.ErrCorrupt):
		c.damage = cmp.Or(c.damage, err)
		return nil
	case err != nil:
		return err
	}
	var txns []store.Txn
	for i, st := range states {
		if txn := rebuild(keys[i], st); len(txn) > 0 {
			txns = append(txns, txn)
		}
	}
	if !c.dry {
		// An interrupt in between would leave the target without these buckets.
		if err := c.write(context.WithoutCancel(ctx), keys, txns); err != nil {
			return err
		}
	}
	c.copied += int64(len(txns))
	if c.progress != nil {
		c.progress(c.copied)
	}
	return ctx.Err()
}

// write replaces the buckets of the keys.
func (c *copying) write(ctx context.Context, keys []string, txns []store.Txn) error {
	if err := c.to.Delete(ctx, keys...); err != nil || len(txns) == 0 {
		return err
	}
	results, err := c.to.Apply(ctx, txns...)
	for _, r := range results {
		err = cmp.Or(err, r.Err)
	}
	return err
}

// rebuild returns the operations that make the bucket of a state out of nothing, or none if the
// bucket is empty. Mode Always puts in a level above the capacity, too, which a smaller limit may
// have left behind. A block lasts from the clock of the target, so it keeps its remaining time.
func rebuild(key string, st store.State) (txn store.Txn) {
	b := store.Limit{Capacity: st.Capacity, LeakRate: st.LeakRate}.For(key)
	if st.Level > 0 || st.Held > 0 {
		txn = append(txn, store.Op{Bucket: b, Amount: st.Level, Hold: st.Held, Mode: store.Always})
	}
	if left := st.BlockedUntil.Sub(st.At); left >= time.Microsecond && !st.BlockedUntil.IsZero() {
		txn = append(txn, store.Op{Bucket: b, Mode: store.Block, BlockFor: left})
	}
	return txn
}
