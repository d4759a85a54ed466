package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/brimgo/brim/internal/load"
)

const (
	keyCount = 100_000 // buckets that have room
	// The number of full buckets in the memory of this process, and on a server, where filling
	// them takes longer.
	fullCount, fullOnServer = 100_000, 10_000

	// A roomy bucket has room during the whole run. A full bucket refuses every call after the
	// first.
	roomy, roomyPerSecond = 1_000_000_000, 1_000_000
	fullWindow            = time.Hour

	// The bucket that all callers rush leaks one unit per rushWindow, which is nothing during a
	// rush.
	rushCapacity, rushWindow = 100, time.Hour
)

// The kinds of subjects.
const ours, reference, naive, peer = "brim", "bare reference", "naive", "peer"

// subject is a limiter or reference that is measured. Its target is opened once and closed at the
// end.
type subject struct {
	name     string
	group    string
	against  string // the name of the subject that it is compared with
	server   string // the server that it needs, "" for none
	table    string // the table of PostgreSQL that is vacuumed after the filling, "" for none
	inMemory bool   // a decision takes less time than a reading of the clock
	tolerant bool   // errors are counted, because the peer gives up on a busy key with an error
	fills    int    // how often each bucket with room is filled before the measurement
	open     func(ctx context.Context, e *env) (*target, error)
}

// The subjects that other code names.
const (
	boltName, memoryName             = "brim bolt", "brim memory"
	updateName, boltUpdate, rateName = "bare UPDATE", "db.Update", "x/time/rate"
)

// ask asks for one unit of the bucket called key.
type ask func(ctx context.Context, key string) (bool, error)

// target is an open subject.
type target struct {
	// The buckets with room, the full ones, and those of the capacity rushCapacity. The latter two
	// are nil if the subject cannot refuse.
	roomy, full, rush ask
	meters            []meter
	// drain ends the work that a trial has left in the background. It may be nil.
	drain func(ctx context.Context) error
	// journal is the path of the journal, "" if there is none.
	journal string
	close   func() error // nil if nothing is to be closed
}

func (t *target) end() error {
	if t.close == nil {
		return nil
	}
	return t.close()
}

// opened is a subject with its target, and the environment with the names of its buckets.
type opened struct {
	*subject
	*target
	env *env
}

func subjects() []*subject {
	return slices.Concat(brims(), references(), memoryPeers(), redisPeers())
}

// choose returns the subjects whose names contain one of the words in only, and the subjects that
// they are compared with. It returns all subjects if only is "".
func choose(all []*subject, only string) ([]*subject, error) {
	if only == "" {
		return all, nil
	}
	wanted := make(map[string]bool)
	for word := range strings.SplitSeq(only, ",") {
		found := false
		for _, s := range all {
			if strings.Contains(s.name, strings.TrimSpace(word)) {
				wanted[s.name], wanted[s.against], found = true, true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("no subject has a name that contains %q", word)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(s *subject) bool { return !wanted[s.name] }), nil
}

// opens opens subjects, and starts the servers that they need.
func (e *env) opens(ctx context.Context, all []*subject) (open []*opened, err error) {
	for _, s := range all {
		if s.server != "" {
			if err := e.start(ctx, s.server); err != nil {
				return open, err
			}
		}
		e.say("opening %s", s.name)
		t, err := s.open(ctx, e)
		if err != nil {
			return open, fmt.Errorf("%s: %w", s.name, err)
		}
		o := &opened{s, t, e}
		open = append(open, o)
		if err := o.fill(ctx); err != nil {
			return open, fmt.Errorf("%s: filling: %w", s.name, err)
		}
	}
	return open, ctx.Err()
}

// fill fills the buckets of a subject. The first calls create them, and the full ones are full
// then. Most buckets of an application have been filled more than once when a decision finds them.
func (s *opened) fill(ctx context.Context) error {
	each := func(a ask, keys []string) error {
		return forEach(256, len(keys), func(i int) error {
			ok, err := a(ctx, keys[i])
			if err == nil && !ok {
				err = errors.New("the first unit was refused")
			}
			return err
		})
	}
	for range s.fills {
		if err := each(s.roomy, s.env.keys); err != nil {
			return err
		}
	}
	if s.full != nil {
		full := s.env.full
		if !s.inMemory {
			full = full[:min(len(full), fullOnServer)]
		}
		if err := each(s.full, full); err != nil {
			return err
		}
	}
	if s.table == "" {
		return nil
	}
	// An autovacuum would otherwise clean up after the filling while the subject is measured.
	return execute(ctx, s.env.pool, "VACUUM ANALYZE "+s.table)
}

// forEach calls do for each number below n, from several callers at once. A caller stops at its
// first error. forEach returns one of the errors, because those of the callers are mostly alike.
func forEach(callers, n int, do func(i int) error) error {
	errs := make([]error, callers)
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := c; i < n && errs[c] == nil; i += callers {
				errs[c] = do(i)
			}
		})
	}
	all.Wait()
	return cmp.Or(errs...)
}

// closeAll closes the subjects.
func closeAll(open []*opened) error {
	var errs []error
	for _, s := range open {
		errs = append(errs, s.end())
	}
	return errors.Join(errs...)
}

// workload is one in which all subjects are compared.
type workload struct {
	distribution string
	callers      int
	refused      bool // all decisions fall on full buckets
	inMemory     bool
}

func (w workload) String() string {
	mix := "accepted"
	if w.refused {
		mix = "refused"
	}
	s := fmt.Sprintf("%s, %d callers, %s", w.distribution, w.callers, mix)
	if w.inMemory {
		s += ", in memory"
	}
	return s
}

// takes reports whether a subject is measured in the workload.
func (w workload) takes(s *opened) bool {
	return (!w.inMemory || s.inMemory) && (!w.refused || s.full != nil)
}

// workloads returns the workloads that the options choose. cores is the number of callers that can
// run at the same time. Subjects that decide in memory are measured with as many callers, because
// more callers would measure the scheduler.
func (b *bench) workloads(cores int) []workload {
	if b.check != "" {
		return checkedWorkloads(cores)
	}
	var all []workload
	for _, distribution := range []string{"uniform", "hot"} {
		for _, callers := range []int{1, 16, 64, 256} {
			all = append(all, workload{distribution, callers, false, false})
		}
		all = append(all, workload{distribution, 64, true, false},
			workload{distribution, cores, false, true}, workload{distribution, cores, true, true})
	}
	return slices.DeleteFunc(all, func(w workload) bool { return !strings.Contains(w.String(), b.cell) })
}

// opening returns the open subjects of the run.
func (b *bench) opening(ctx context.Context) (err error) {
	if b.open != nil {
		return nil
	}
	b.open, err = b.opens(ctx, b.chosen)
	// A request brings its own copy of a key. If a map gets the string that it stores, it compares
	// only the address and does not read the string.
	b.rename()
	// Subjects that are compared with the same subject run one after the other, so that other work
	// of the machine weighs on both sides of a ratio.
	slices.SortStableFunc(b.open, func(a, z *opened) int { return cmp.Compare(a.against, z.against) })
	return err
}

// cells measures decisions per second and answer times in each workload.
func (b *bench) cells(ctx context.Context) error {
	if err := b.opening(ctx); err != nil {
		return err
	}
	all := b.workloads(runtime.GOMAXPROCS(0))
	for i, w := range all {
		b.say("%s (%d of %d)", w, i+1, len(all))
		full := fullOnServer
		if w.inMemory {
			full = fullCount
		}
		refused := 0.0 // the share
		if w.refused {
			refused = 1
		}
		order, err := load.Draw(w.distribution, keyCount, full, refused, 1)
		if err != nil {
			return err
		}
		var trials []contestant
		for _, s := range b.open {
			if w.takes(s) && (b.check == "" || s.inMemory == w.inMemory) {
				trials = append(trials, b.on(s, w.String(), work{Options: load.Options{Callers: w.callers, Order: order}, refused: w.refused}))
			}
		}
		if err := b.contest(ctx, trials); err != nil {
			return err
		}
	}
	return nil
}
