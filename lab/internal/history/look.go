package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/brimgo/brim/store"
)

// swept returns an error if the directory of an open store holds more than its file and its
// journal, or the log of a database, its index and its rollback journal, which may be empty.
func swept(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		suffix, is := strings.CutPrefix(filepath.Join(dir, e.Name()), Path(dir))
		if !is || !slices.Contains([]string{"", ".journal", "-wal", "-shm", "-journal"}, suffix) {
			return fmt.Errorf("%s is there after the file was opened", e.Name())
		}
	}
	return err
}

// Look opens the file in dir when the clock shows seconds, and returns its content. It then fills a
// bucket twice and verifies the whole file, because a store must be usable after it was opened.
func Look(dir string, subject Subject, seconds int) (c Content, err error) {
	ctx := context.Background()
	o, err := open(ctx, dir, subject, 0, func() time.Time { return At(seconds) })
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	if err := swept(dir); err != nil {
		return c, err
	}
	if _, err := o.s.Prune(ctx); err != nil { // what has expired may be there or not
		return c, err
	}
	states, err := o.s.Read(ctx, buckets()...)
	if err != nil {
		return c, err
	}
	copy(c.Buckets[:], states)
	if o.budgets != nil {
		if c.Spends, err = spendsIn(ctx, o.budgets); err != nil {
			return c, err
		}
	}
	probe := store.Op{Bucket: store.Limit{Capacity: 1}.For("probe"), Amount: 1, Mode: store.Always}
	for range 2 { // the second change begins a journal
		if _, err := o.s.Fill(ctx, probe); err != nil {
			return c, err
		}
	}
	return c, o.s.Verify(ctx)
}
