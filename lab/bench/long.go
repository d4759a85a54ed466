package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/load"
)

// rushes lets many callers ask for units of small, new buckets at once, and reports the most units
// that a subject admitted beyond the capacity.
func (b *bench) rushes(ctx context.Context) error {
	if err := b.opening(ctx); err != nil {
		return err
	}
	for _, s := range b.open {
		if s.rush == nil {
			continue
		}
		b.say("rush: %s", s.name)
		worst := int64(0)
		for n := range b.rounds {
			beyond, err := s.rushed(ctx, fmt.Sprintf("rush:%d", n))
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			worst = max(worst, beyond)
		}
		workload := fmt.Sprintf("%d callers ask for %d units of a new bucket of %d", rushCallers, rushTries, rushCapacity)
		b.new(workload, s.name, s.group, s.against).add("most admitted beyond the limit", float64(worst))
	}
	return nil
}

const rushCallers, rushTries = 64, 1000

// rushed returns the number of units that were admitted beyond the capacity of a bucket.
func (s *opened) rushed(ctx context.Context, key string) (beyond int64, err error) {
	var admitted atomic.Int64
	err = forEach(rushCallers, rushTries, func(int) error {
		ok, err := s.rush(ctx, key)
		if ok {
			admitted.Add(1)
		}
		if s.tolerant {
			return nil
		}
		return err
	})
	return max(0, admitted.Load()-rushCapacity), err
}

// rotations counts the segments of the journal that were filled in a trial. Without one, the
// journal has hidden a part of the work.
const rotations = "journal rotations"

// sustained measures bolt and db.Update for so long that bolt's journal is rotated. A trial of bolt
// ends when the segments that are full stand in the bbolt file.
func (b *bench) sustained(ctx context.Context) error {
	if !slices.ContainsFunc(b.chosen, func(s *subject) bool { return s.name == boltName }) {
		return nil
	}
	buckets := []int{keyCount, 10 * keyCount}
	if b.Quick {
		buckets = buckets[:1]
	}
	for _, n := range buckets {
		if err := b.sustainedOf(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// sustainedOf measures with one number of buckets, in files of their own.
func (b *bench) sustainedOf(ctx context.Context, buckets int) (err error) {
	of := *b.env
	if of.dir, err = os.MkdirTemp(b.dir, "sustained-"); err != nil {
		return err
	}
	of.keys = names("tenant:%d", buckets)
	b.say("sustained: creating %d buckets in each file", buckets)
	open, err := of.opens(ctx, slices.DeleteFunc(subjects(), func(s *subject) bool {
		return s.name != boltName && s.name != boltUpdate
	}))
	defer func() { err = errors.Join(err, closeAll(open), os.RemoveAll(of.dir)) }()
	if err != nil {
		return err
	}
	order, err := load.Draw("uniform", buckets, 1, 0, 6)
	if err != nil {
		return err
	}
	var trials []contestant
	for _, s := range open {
		w := work{Options: load.Options{Callers: 64, Order: order}, charged: true}
		if s.journal != "" {
			w.meters = []meter{{rotations, func(context.Context) (float64, error) {
				n, err := newestGeneration(s.journal)
				return float64(n), err
			}, 0}}
		}
		trials = append(trials, b.on(s, fmt.Sprintf("%d buckets, 64 callers", buckets), w))
	}
	return b.contest(ctx, trials)
}

// newestGeneration returns the generation of the newest frame of a journal, 0 if there is none.
// Whenever the journal goes on in its other segment, a generation begins, so the difference of two
// calls tells how often it did so. Nothing may be appended meanwhile.
func newestGeneration(path string) (uint64, error) {
	const segmentSize, segments, generation = 36, 4096, 8 // offsets; see docs/internals/files.md
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	number := func(at int64) uint64 {
		var b [8]byte
		if err == nil {
			_, err = file.ReadAt(b[:], at)
		}
		return binary.LittleEndian.Uint64(b[:])
	}
	second := segments + int64(number(segmentSize))
	newest := max(number(segments+generation), number(second+generation))
	return newest, errors.Join(err, file.Close())
}

// quiet is the time without a commit after which a store is taken to have nothing more to write.
// It is the pause before a commit, in which the store collects and sorts changes.
const quiet = 50 * time.Millisecond

// drainBolt waits until the store has written a segment of its journal that is full to the file,
// and has come to rest. The changes in the newest segment stay in the journal, as they do in an
// application, and a later trial writes them.
func drainBolt(ctx context.Context, s *bolt.Store, path string) error {
	last, since := 0, time.Now()
	for {
		newest, err := newestGeneration(path)
		if err != nil {
			return err
		}
		written, commit, err := writtenTo(ctx, s)
		if err != nil {
			return err
		}
		if commit != last {
			last, since = commit, time.Now()
		}
		if written >= newest && time.Since(since) >= quiet {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// writtenTo waits for the commit under way. It returns the generation up to which the file has all
// changes, as the store notes in it, and the number of the newest commit.
func writtenTo(ctx context.Context, s *bolt.Store) (generation uint64, commit int, err error) {
	const noted, end = 17, 25 // offsets of the generation in the note; see package bolt
	file, table := kv.Of(s).File(), boltfile.NewTable("brim")
	if err := file.Lock(ctx); err != nil {
		return 0, 0, err
	}
	defer file.Unlock()
	err = file.View(func(tx *bbolt.Tx) error {
		_, meta, err := table.Find(tx)
		if err != nil {
			return err
		}
		body, ok := table.OpenMeta([]byte("journal"), meta.Get([]byte("journal")))
		if !ok || len(body) < end {
			return errors.New("the file does not tell how far it has come with its journal")
		}
		generation, commit = binary.LittleEndian.Uint64(body[noted:end]), tx.ID()
		return nil
	})
	return generation, commit, err
}
