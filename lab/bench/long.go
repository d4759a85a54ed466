package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
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

const (
	// openCallers is the largest number of calls under way in the open loop. It is so large that
	// few calls wait for a caller.
	openCallers = 1024
	// openShare is the rate of the open loop, as a share of the largest rate of the subject.
	openShare = 0.5
)

// latency measures answer times, uniformly over all buckets. In the closed loop callers ask again
// as soon as they have their answers. In the open loop calls begin at half of the largest rate
// that this run measured for the subject. There a time counts from the moment at which the call
// was due, also if the program itself was late. Half-way through each turn expired buckets are
// pruned.
func (b *bench) latency(ctx context.Context) error {
	if err := b.opening(ctx); err != nil {
		return err
	}
	order, err := load.Draw("uniform", keyCount, 1, 0, 5)
	if err != nil {
		return err
	}
	for _, open := range []bool{false, true} {
		name := "closed loop, 64 callers"
		if open {
			name = "open loop, half of the largest rate"
		}
		b.say("latency: %s", name)
		var turns []contestant
		for _, s := range b.open {
			w := work{Options: load.Options{Callers: 64, Order: order}, prune: s.prune}
			if open {
				w.perSecond, w.Callers = openShare*b.largest(s.name), openCallers
				if s.inMemory {
					w.Callers = runtime.GOMAXPROCS(0)
				}
			}
			turns = append(turns, b.on(s, name, w))
		}
		if err := b.contest(ctx, turns); err != nil {
			return err
		}
	}
	return nil
}

// largest returns the most decisions per second that this run measured for a subject on many
// buckets with room.
func (r *results) largest(subject string) (most float64) {
	for _, o := range r.Rows {
		accepting := o.Part == "latency" || o.Part == "cells" && regexp.MustCompile(`^uniform, \d+ callers, accepted`).MatchString(o.Workload)
		if o.Subject == subject && accepting {
			most = max(most, load.Median(o.of(rateFigure)))
		}
	}
	return most
}

// A figure of bolt does not count if its journal was rotated less often: the journal would have
// hidden a part of the work. A contest is repeated for want of rotations.
const leastRotations, mostContests = 2, 5

// sustained measures bolt and its references over a time in which bolt's journal is rotated. A turn
// in which a segment of the journal fills also writes it to the bbolt file. Turns therefore differ,
// and their sums count. A turn of bolt ends when the segments that are full stand in the bbolt
// file.
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
	open, _, err := of.opens(ctx, slices.DeleteFunc(subjects(), func(s *subject) bool {
		return s.name != boltName && s.name != boltUpdate && s.name != syncName
	}))
	defer func() { err = errors.Join(err, closeAll(open), os.RemoveAll(of.dir)) }()
	if err != nil {
		return err
	}
	run := *b // on these files
	run.env = &of
	defer func() { b.results = run.results }()
	for _, w := range []workload{
		{"uniform", 1, 0, false}, {"uniform", 64, 0, false}, {"uniform", 256, 0, false}, {"hot", 64, 0, false}, {"hot", 256, 0, false},
	} {
		b.say("sustained: %d buckets, %s", buckets, w)
		if err := run.sustainedIn(ctx, w, open); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) sustainedIn(ctx context.Context, w workload, open []*opened) error {
	order, err := load.Draw(w.distribution, len(b.keys), 1, 0, 6)
	if err != nil {
		return err
	}
	var turns []contestant
	var ours *row
	for _, s := range open {
		if s.name == syncName && w.callers > 1 { // nobody combines the bare syncs of several callers
			continue
		}
		job := work{Options: load.Options{Callers: w.callers, Order: order}, charged: true}
		job.meters = []meter{{writtenBytes, writtenByProcess, 1}}
		if s.journal != "" {
			job.meters = append(job.meters, meter{rotations, func(context.Context) (float64, error) {
				n, err := kv.Generation(s.journal)
				return float64(n), err
			}, 0})
		}
		c := b.on(s, fmt.Sprintf("%d buckets, %s", len(b.keys), w), job)
		if s.name == boltName {
			ours = c.row
		}
		turns = append(turns, c)
	}
	for n := range mostContests {
		if n > 0 && b.Quick {
			break
		}
		if err := b.contest(ctx, turns); err != nil {
			return err
		}
		if sum(ours.of(rotations)) >= leastRotations {
			break
		}
	}
	if n := sum(ours.of(rotations)); n < leastRotations {
		b.say("sustained: the journal was rotated %v times only, so bolt's figures have no ratio", n)
		ours.Against = ""
	}
	for _, c := range turns {
		c.row.together()
	}
	return nil
}

const elapsed, rotations, writtenBytes = "seconds", "journal rotations", "written bytes"

func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

// together replaces the figures of the turns by those of all turns together.
func (r *row) together() {
	var decisions, seconds, written float64
	for i, s := range r.of(elapsed) {
		seconds += s
		decisions += s * r.of(rateFigure)[i]
		written += s * r.of(rateFigure)[i] * r.of(writtenBytes)[i]
	}
	for _, f := range r.Figures {
		switch f.Name {
		case rateFigure:
			f.Rounds = []float64{decisions / seconds}
		case elapsed, rotations:
			f.Rounds = []float64{sum(f.Rounds)}
		case writtenBytes:
			f.Rounds = []float64{written / decisions}
		}
	}
}

var writeBytes = regexp.MustCompile(`(?m)^write_bytes: (\d+)$`)

// writtenByProcess returns the bytes that this process has caused to be written to a disk so far.
// Linux alone counts them, and not those to a file system in memory. Elsewhere there are none.
func writtenByProcess(context.Context) (float64, error) {
	text, err := os.ReadFile("/proc/self/io")
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	m := writeBytes.FindSubmatch(text)
	if m == nil {
		return 0, errors.Join(err, errors.New("/proc/self/io reports no write_bytes"))
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// quiet is the time without a commit after which a store is taken to have nothing more to write.
// It is the pause before a commit, in which the store collects and sorts changes.
const quiet = 50 * time.Millisecond

// drainBolt waits until the store has written a segment of its journal that is full to the file,
// and has come to rest. The changes in the newest segment stay in the journal, as they do in an
// application, and a later turn writes them.
func drainBolt(ctx context.Context, s *bolt.Store, path string) error {
	last, since := 0, time.Now()
	for {
		newest, err := kv.Generation(path)
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
	file, table := kv.PartsOf(s).DB.File(), boltfile.NewTable("brim")
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
