package sched

import (
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/brimgo/brim/lab/internal/attack"
)

// subjects returns all subjects. Their schedules of a night make a million.
func subjects() []*subject {
	return []*subject{combineSubject, relaxedSubject, refusalsSubject, leaseSubject, queueSubject, shaperSubject}
}

// TestSched attacks each subject with new schedules.
func TestSched(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	all := subjects()
	for i, u := range all {
		t.Run(u.name, func(t *testing.T) { u.attack(t, seed, share(t, len(all)-i)) })
	}
}

// share returns the time that a subject may take of the time that "go test -timeout" leaves to so
// many subjects.
func share(t *testing.T, subjects int) time.Duration {
	deadline, ok := t.Deadline()
	if !ok {
		return time.Hour
	}
	return time.Until(deadline) * 9 / 10 / time.Duration(subjects)
}

func (u *subject) attack(t *testing.T, seed attack.Seed, most time.Duration) {
	row := attack.Begin(t, "sched", u.name, seed)
	budget := attack.Pick(
		attack.Budget{Count: u.night, Time: 700 * time.Millisecond},
		attack.Budget{Count: u.night, Time: time.Hour},
	)
	budget.Time = min(budget.Time, most)
	meter := budget.Start()
	steps := 0
	for ; !meter.Spent(); meter.Done++ {
		part := seed.Part(meter.Done)
		p, plan := u.scheduleOf(part)
		o := u.play(t, p, plan)
		if o.err != nil {
			row.Found = o.err.Error()
			t.Errorf("%v\nrepeat: %s", u.shrink(t, part, p, o), u.repeat(part))
			break
		}
		steps += len(o.schedule.Trace)
	}
	row.Often = fmt.Sprintf("%d schedules", meter.Done)
	t.Logf("%d schedules of %d steps each in %v, found: %s; seed %d",
		meter.Done, steps/max(1, meter.Done), meter.Took(), row.Found, seed)
}

func (u *subject) repeat(seed attack.Seed) string {
	return seed.Repeat("sched", "TestSched/"+u.name)
}

// TestRepeats: the same seed makes the same trace, byte for byte.
func TestRepeats(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range subjects() {
		t.Run(u.name, func(t *testing.T) {
			meter := attack.Pick(
				attack.Budget{Count: 1000, Time: 200 * time.Millisecond},
				attack.Budget{Count: 2000, Time: time.Hour},
			).Start()
			digest := fnv.New64a() // of all traces; another process with the same seed and count has the same
			for ; !meter.Spent(); meter.Done++ {
				part := seed.Part(meter.Done)
				var traces [2]string
				for i := range traces {
					p, plan := u.scheduleOf(part)
					o := u.play(t, p, plan)
					if o.schedule == nil {
						t.Fatalf("%v\nrepeat: %s", o.err, u.repeat(part))
					}
					traces[i] = o.schedule.String()
				}
				if traces[0] != traces[1] {
					t.Fatalf("two traces of seed %d:\n%s\n%s\nrepeat: %s", part, traces[0], traces[1],
						part.Repeat("sched", "TestRepeats/"+u.name))
				}
				_, _ = digest.Write([]byte(traces[0]))
			}
			t.Logf("%d seeds repeated their traces in %v, digest %x; seed %d",
				meter.Done, meter.Took(), digest.Sum64(), seed)
		})
	}
}
