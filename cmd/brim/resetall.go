package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/brimgo/brim"
)

// resetAll deletes all buckets whose keys begin with prefix. It counts them first and asks, unless
// yes is set.
func (a *app) resetAll(ctx context.Context, s *opened, prefix string, yes bool) error {
	n := 0
	for _, err := range byKey(ctx, s, prefix) {
		switch {
		case errors.Is(err, brim.ErrCorrupt): // its bucket stays, and the end of this command tells
		case err != nil:
			return err
		default:
			n++
		}
	}
	if n > 0 && !yes {
		if !a.asks() {
			return usagef("--all would delete %d buckets of %s; without a terminal to ask at, it needs --yes", n, s.name)
		}
		fmt.Fprintf(a.stderr, "delete %d buckets of %s? Type yes: ", n, s.name)
		answer, err := bufio.NewReader(a.stdin).ReadString('\n')
		if err != nil {
			return usagef("no answer, so nothing was deleted: %w", err)
		}
		if strings.TrimSpace(answer) != "yes" {
			return usagef("the answer is not yes, so nothing was deleted")
		}
	}
	deleted, damage := 0, error(nil)
	var keys []string
	remove := func() error {
		if err := s.Delete(ctx, keys...); err != nil {
			return fmt.Errorf("%d buckets were deleted, and then: %w", deleted, err)
		}
		deleted, keys = deleted+len(keys), keys[:0]
		return nil
	}
	for e, err := range byKey(ctx, s, prefix) {
		if errors.Is(err, brim.ErrCorrupt) {
			damage = err
			break // it comes behind all others
		}
		if err != nil {
			return err
		}
		if keys = append(keys, e.Key); len(keys) == pageRows {
			if err := remove(); err != nil {
				return err
			}
		}
	}
	if err := remove(); err != nil {
		return err
	}
	if err := a.print(map[string]int{"reset": deleted}, fmt.Sprintf("reset: %d", deleted)); err != nil {
		return err
	}
	return damage
}
