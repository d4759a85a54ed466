package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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

// group is the kind of a subject. The pictures show it as the colour of a bar.
type group int

const (
	ours group = iota
	reference
	naive
	peer
)

var groupNames = []string{"brim", "bare reference", "naive", "peer"}

// subject is a limiter or reference that is measured. Its target is opened once and closed at the
// end.
type subject struct {
	name     string
	group    group
	keeps    string // the place of the buckets, and the event that an answer waits for
	against  string // the name of the subject that it is compared with
	server   string // the server that it needs, "" for none
	inMemory bool   // a decision takes less time than a reading of the clock
	open     func(ctx context.Context, e *env) (*target, error)
}

// The subjects that other code names.
const (
	postgresName, boltName, relaxedName, memoryName      = "brim postgres", "brim bolt", "brim bolt relaxed", "brim memory"
	refusalsName                                         = "brim refusals over memory"
	updateName, boltUpdate, rateName                     = "bare UPDATE", "db.Update", "x/time/rate"
	redisAlwaysName, redisEverysecName, redisClusterName = "brim redis, AOF always", "brim redis, AOF everysec", "brim redis, cluster"
	redisRateName, redisRateEverysec, redisRateCluster   = "redis_rate, AOF always", "redis_rate, AOF everysec", "redis_rate, cluster"
)

// target is an open subject. decide is required.
type target struct {
	// decide asks for one unit of the bucket keys[key] or, if full is set, of full[key].
	decide func(ctx context.Context, key int, full bool) (bool, error)
	// rush asks for one unit of the bucket called key, which has the capacity rushCapacity. It is
	// nil if the subject cannot refuse.
	rush func(ctx context.Context, key string) (bool, error)
	// cannotRefuse keeps the subject out of mixes with refusals.
	cannotRefuse bool
	// tolerant counts errors instead of ending the run. It is for a peer that gives up on a busy
	// key with an error.
	tolerant bool
	// written returns the number of bytes that the server has written to its log so far. It is
	// nil if there is no server.
	written func(ctx context.Context) (int64, error)
	// worked returns the time that the servers have computed so far. It is nil if they do not tell.
	worked func(ctx context.Context) (time.Duration, error)
	// settle ends the work that a turn has left in the background, before the next turn begins.
	// It may be nil.
	settle func(ctx context.Context) error
	// charged makes the time and the writes of settle a part of the turn.
	charged bool
	// prune removes expired buckets. It is nil if nobody has to remove them.
	prune func(ctx context.Context) (int64, error)
	// rotations returns how often the journal has been rotated so far. It is nil if there is no
	// journal. It may only be called when the target is settled.
	rotations func() (uint64, error)
	close     func() error
}

// opened is a subject with its target.
type opened struct {
	*subject
	*target
}

// cell is one workload that all subjects run in turn.
type cell struct {
	Distribution string  `json:"distribution"`
	Callers      int     `json:"callers"`
	Refused      float64 `json:"refused"` // the share of decisions that fall on full buckets
	InMemory     bool    `json:"in_memory,omitempty"`
}

func (c cell) String() string {
	mix := "accepted"
	switch {
	case c.Refused == 1:
		mix = "refused"
	case c.Refused > 0:
		mix = fmt.Sprintf("%.0f %% refused", 100*c.Refused)
	}
	s := fmt.Sprintf("%s, %d callers, %s", c.Distribution, c.Callers, mix)
	if c.InMemory {
		s += ", in memory"
	}
	return s
}

// takes reports whether a subject is measured in the cell.
func (c cell) takes(s *opened) bool {
	return (!c.InMemory || s.inMemory) && (c.Refused == 0 || !s.cannotRefuse)
}

func (c cell) order() (load.Order, error) {
	full := fullOnServer
	if c.InMemory {
		full = fullCount
	}
	return load.Draw(c.Distribution, keyCount, full, c.Refused, 1)
}

// cells returns the workloads. cores is the number of callers that can run at the same time.
// Subjects that decide in memory are measured with as many callers, because more callers would
// measure the scheduler.
func cells(cores int, quick bool) []cell {
	var all []cell
	for _, distribution := range load.Distributions {
		for _, callers := range []int{1, 16, 64, 256} {
			if !quick || distribution != "zipf" || callers == 64 {
				all = append(all, cell{distribution, callers, 0, false})
			}
		}
	}
	all = append(
		all,
		cell{"uniform", 64, 0.5, false}, cell{"hot", 64, 0.5, false},
		cell{"uniform", 1, 1, false}, cell{"uniform", 64, 1, false}, cell{"hot", 64, 1, false},
	)
	for _, distribution := range []string{"uniform", "hot"} {
		for _, refused := range []float64{0, 1} {
			all = append(all, cell{distribution, cores, refused, true})
		}
	}
	return all
}

const (
	rushCallers = 64
	rushTries   = 1000
)

// rush lets many callers ask for units of one small, new bucket at once, and returns the number
// of units that were admitted beyond its capacity.
func rush(ctx context.Context, t *target, key string) (beyond int64, err error) {
	var tries, admitted atomic.Int64
	var all sync.WaitGroup
	errs := make(chan error, rushCallers)
	begin := make(chan struct{})
	for range rushCallers {
		all.Go(func() {
			<-begin
			for tries.Add(1) <= rushTries {
				ok, err := t.rush(ctx, key)
				if err != nil && !t.tolerant {
					errs <- err
					return
				}
				if ok {
					admitted.Add(1)
				}
			}
		})
	}
	close(begin)
	all.Wait()
	select {
	case err := <-errs:
		return 0, err
	default:
		return max(0, admitted.Load()-rushCapacity), ctx.Err()
	}
}
