//go:build linux

package full

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/lab/internal/attack"
)

// step is a piece of a round.
type step string

// The steps.
const (
	open    step = "open a new store without room"
	put     step = "put"
	fill    step = "fill the disk and put until it fails"
	compact step = "compact"
	free    step = "make room and put"
)

// round fills the disk once.
type round struct {
	region int64 // of the journal
	narrow int64 // bytes of room for a new store
	room   int64 // bytes that the full disk has left
	steps  []step
}

func (rd round) String() string {
	return fmt.Sprintf("a journal of %d bytes, %d and then %d bytes of room, %q", rd.region, rd.narrow, rd.room, rd.steps)
}

// roundOf returns the round of a seed.
func roundOf(seed attack.Seed) round {
	r := seed.Rand()
	rd := round{region: regions[r.IntN(len(regions))]}
	if r.IntN(4) == 0 {
		rd.narrow = r.Int64N(16 << 10)
		rd.steps = append(rd.steps, open)
	}
	for range r.IntN(5) {
		rd.steps = append(rd.steps, put)
	}
	rd.room = r.Int64N(128 << 10)
	rd.steps = append(rd.steps, fill, compact, free)
	return rd
}

// shrink looks for fewer steps that fail, too. It returns them with their error.
func (rd round) shrink(ctx context.Context, dir string, err error) (round, error) {
	rd.steps = attack.Shrink(rd.steps, 100, func(steps []step) bool {
		shorter := rd
		shorter.steps = steps
		failure := shorter.run(ctx, dir)
		if failure != nil {
			err = failure
		}
		return failure != nil
	})
	return rd, err
}

// run carries the round out in a directory that is empty before and after it. The error tells all
// that is wrong.
func (rd round) run(ctx context.Context, dir string) (err error) {
	path, filler := filepath.Join(dir, "limits.db"), filepath.Join(dir, "filler")
	defer func() {
		_ = errors.Join(os.Remove(path), os.Remove(filler)) // the filler is there only after a failure
	}()
	steps := rd.steps
	if slices.Contains(steps, open) {
		steps = steps[1:]
		if err := fillUp(filler, rd.narrow); err != nil {
			return err
		}
		_, err = bolt.Open(path, optionsOf(rd.region))
		if err = errors.Join(wrong("Open", err), os.Remove(filler)); err != nil {
			return err
		}
	}
	l := &load{region: rd.region}
	if err := l.reopen(path); err != nil {
		return err
	}
	defer func() { _ = l.s.Close() }()
	for _, s := range steps {
		if err = errors.Join(err, l.do(ctx, s, filler, rd.room)); err != nil {
			return err
		}
	}
	if err := os.Remove(filler); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := errors.Join(l.reopen(path), l.check("after it was opened again")); err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("the directory holds %v", files)
	}
	return err
}

// do carries out a step of a store that is open.
func (l *load) do(ctx context.Context, s step, filler string, room int64) error {
	switch s {
	case put:
		return l.put()
	case fill:
		if err := fillUp(filler, room); err != nil {
			return err
		}
		var err error
		for err == nil {
			err = l.put()
		}
		return errors.Join(wrong("Apply", err), l.checkFull())
	case compact:
		if _, _, err := l.s.Compact(ctx); err != nil { // there may be room for the small file
			return wrong("Compact", err)
		}
	case free:
		if err := os.Remove(filler); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return errors.Join(l.again(filepath.Join(filepath.Dir(filler), "limits.db")),
			l.read("with room again"), l.check("with room again"))
	}
	return nil
}

// again fills buckets when there is room again. The store may have to be opened again first.
func (l *load) again(path string) error {
	err := l.put()
	switch {
	case err == nil:
		return nil
	case !strings.Contains(err.Error(), "open it again"):
		return fmt.Errorf("with room again: %w", err)
	}
	if err := l.reopen(path); err != nil {
		return err
	}
	return l.put()
}

func (l *load) reopen(path string) (err error) {
	if l.s != nil {
		if err := l.s.Close(); err != nil {
			return err
		}
	}
	s, err := bolt.Open(path, optionsOf(l.region))
	if err != nil {
		return err
	}
	l.s = s
	return nil
}

// TestShrinks: a round that fails is shown with the steps that it needs.
func TestShrinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "stays"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rd := round{steps: []step{put, compact, put}}
	err := rd.run(t.Context(), dir)
	if err == nil {
		t.Fatal("a file that stays went unseen")
	}
	if short, err := rd.shrink(t.Context(), dir, err); len(short.steps) > 0 || !strings.Contains(err.Error(), "stays") {
		t.Errorf("%v: %v; want no steps, and the file that stays", short, err)
	}
}
