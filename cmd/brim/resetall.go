package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

// resetAll deletes all buckets whose keys begin with prefix. It counts them first and asks, unless
// yes is set.
func (a *app) resetAll(ctx context.Context, s *opened, prefix string, yes bool) error {
	n := 0
	err := s.Visit(ctx, prefix, func(store.Entry) bool { n++; return true })
	if err != nil && !errors.Is(err, brim.ErrCorrupt) { // a damaged bucket stays, and the end of this command tells
		return err
	}
	if n > 0 && !yes {
		if !a.asks() {
			return usagef("--all would delete %s of %s; without a terminal to ask at, it needs --yes", count(n, "bucket"), s.name)
		}
		fmt.Fprintf(a.stderr, "delete %s of %s? Type yes: ", count(n, "bucket"), printable(s.name))
		answer, err := atOnce(ctx, func() (string, error) { return bufio.NewReader(a.stdin).ReadString('\n') })
		if err != nil {
			return usagef("no answer, so nothing was deleted: %w", err)
		}
		if strings.TrimSpace(answer) != "yes" {
			return usagef("the answer is not yes, so nothing was deleted")
		}
	}
	var keys []string
	damage := s.Visit(ctx, prefix, func(e store.Entry) bool { keys = append(keys, e.Key); return true })
	if damage != nil && !errors.Is(damage, brim.ErrCorrupt) {
		return damage
	}
	deleted := 0
	for chunk := range slices.Chunk(keys, 1000) {
		if err := s.Delete(ctx, chunk...); err != nil {
			return fmt.Errorf("buckets deleted: %d, and then: %w", deleted, err)
		}
		deleted += len(chunk)
	}
	if err := a.print(map[string]int{"reset": deleted}, fmt.Sprintf("reset: %d", deleted)); err != nil {
		return err
	}
	return damage
}
