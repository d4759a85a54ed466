package brim_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

const ttl = 30 * time.Second

// slotTest is a key with one place, and its holders.
type slotTest struct {
	t             *testing.T
	lim           *brim.Limiter
	clock         *brimtest.Clock
	first, second *brim.Slot
}

func pass(d time.Duration) func(*slotTest) { return func(s *slotTest) { s.clock.Advance(d) } }

// free tries to take the place, and checks whether it was free.
func free(want bool) func(*slotTest) {
	return func(s *slotTest) {
		slot, err := s.lim.Acquire(s.t.Context(), "one", 1, ttl)
		if err != nil && !errors.Is(err, brim.ErrOverLimit) || (err == nil) != want {
			s.t.Errorf("the next holder: %v; want a free place: %v", err, want)
		}
		if slot != nil {
			s.second = slot
		}
	}
}

// does has the first holder renew or release its slot.
func does(call func(*brim.Slot, context.Context) error, want error) func(*slotTest) {
	return func(s *slotTest) {
		if err := call(s.first, s.t.Context()); !errors.Is(err, want) {
			s.t.Errorf("the first holder: %v; want %v", err, want)
		}
	}
}

// second has the second holder renew and release its slot.
func second(s *slotTest) {
	if err := cmp.Or(s.second.Renew(s.t.Context()), s.second.Release(s.t.Context())); err != nil {
		s.t.Errorf("the second holder: %v", err)
	}
}

func TestSlot(t *testing.T) {
	const nearly = ttl - time.Microsecond
	lost, renew, release := brim.ErrSlotLost, (*brim.Slot).Renew, (*brim.Slot).Release
	hangUp := func(s *brim.Slot, ctx context.Context) error {
		gone, leave := context.WithCancel(ctx)
		leave()
		return s.Release(gone)
	}
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		for _, c := range []struct {
			name, why string
			steps     []func(*slotTest) // after the first holder has taken the place
		}{
			{
				"taken", "two holders of one place would be one too many",
				[]func(*slotTest){pass(nearly), free(false)},
			},
			{"after a crash", "a killed holder never releases", []func(*slotTest){pass(ttl), free(true)}},
			{"released", "the work is done", []func(*slotTest){does(release, nil), free(true)}},
			{
				"released twice", "the place can have another holder by then",
				[]func(*slotTest){does(release, nil), free(true), does(release, lost), free(false), second},
			},
			{
				"released by a caller who has gone", "else each client that hangs up takes a place for the TTL",
				[]func(*slotTest){does(hangUp, nil), free(true)},
			},
			{
				"renewed", "the TTL begins anew, and does not add up",
				[]func(*slotTest){
					pass(nearly), does(renew, nil), pass(nearly), does(renew, nil), pass(nearly), free(false),
					pass(time.Microsecond), free(true),
				},
			},
			{
				"stalled", "somebody else has the place, and keeps it",
				[]func(*slotTest){pass(ttl), free(true), does(renew, lost), free(false), second},
			},
			{
				"stalled until the release", "the place of somebody else stays taken",
				[]func(*slotTest){pass(ttl), free(true), does(release, lost), free(false), second},
			},
			{
				"stalled, and nobody came", "others may have come and gone; the place is free at once",
				[]func(*slotTest){pass(ttl), does(renew, lost), free(true)},
			},
			{
				"a short step back", "the clock does not run backwards for a bucket",
				[]func(*slotTest){pass(-time.Minute), does(renew, nil), free(false), does(release, nil)},
			},
			{
				"a long step back", "the slot is kept, and its TTL begins at the new time",
				[]func(*slotTest){pass(-time.Hour), free(false), does(renew, nil), pass(ttl), free(true)},
			},
		} {
			t.Run(c.name, func(t *testing.T) {
				st := &slotTest{t: t, lim: brim.New(s, &brim.Options{Prefix: c.name}), clock: clock}
				free(true)(st)
				st.first = st.second
				for _, step := range c.steps {
					step(st)
				}
				if t.Failed() {
					t.Log("why: " + c.why)
				}
			})
		}
	})
}

// TestAcquire: the refusal tells when a place is free, and keys and prefixes have places of their
// own.
func TestAcquire(t *testing.T) {
	lim, s, clock := open(t, nil)
	for range 3 {
		if _, err := lim.Acquire(t.Context(), "k", 3, ttl); err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Second)
	}
	_, err := lim.Acquire(t.Context(), "k", 3, ttl)
	var over *brim.OverLimitError
	if !errors.As(err, &over) || over.RetryAfter != ttl-3*time.Second || over.Level != 3 {
		t.Errorf("the fourth of 3 slots: %v, %+v; want a refusal until the first has expired", err, over)
	}
	if strings.Contains(err.Error(), "k:") {
		t.Errorf("%q tells the key", err)
	}
	for name, l := range map[string]*brim.Limiter{"k": brim.New(s, &brim.Options{Prefix: "p"}), "other": lim} {
		if _, err := l.Acquire(t.Context(), name, 3, ttl); err != nil {
			t.Errorf("a key of its own: %v", err)
		}
	}
	if _, err := lim.Acquire(t.Context(), "k", 4, ttl); err != nil {
		t.Errorf("the fourth of 4 slots: %v", err)
	}
	for e, err := range lim.List(t.Context(), "") {
		t.Errorf("%v, %v: a place is listed as a bucket", e, err)
	}
	shadow := brim.New(s, &brim.Options{Shadow: func(context.Context, brim.Fill, error) {}})
	for _, c := range []struct {
		l    *brim.Limiter
		key  string
		most int
		ttl  time.Duration
		want error
	}{
		{lim, "", 1, ttl, brim.ErrInvalidKey},
		{lim, strings.Repeat("k", 510), 1, ttl, brim.ErrInvalidKey},
		{lim, "k", 0, ttl, brim.ErrInvalidLimit},
		{lim, "k", 10_001, ttl, brim.ErrInvalidLimit},
		{lim, "k", 1, time.Microsecond, brim.ErrInvalidLimit},
		{lim, "k", 1, 366 * 24 * time.Hour, brim.ErrInvalidLimit},
		{shadow, "k", 1, ttl, errors.ErrUnsupported},
		{brim.New(nil, nil), "k", 1, ttl, brim.ErrClosed},
	} {
		if slot, err := c.l.Acquire(t.Context(), c.key, c.most, c.ttl); slot != nil || !errors.Is(err, c.want) {
			t.Errorf("Acquire(%.5q, %d, %v): %v, %v; want %v", c.key, c.most, c.ttl, slot, err, c.want)
		}
	}
}

// overtaken is a store over which somebody else takes each place that a caller has found free.
type overtaken struct {
	store.Store
	reads int
}

func (s *overtaken) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	s.reads++
	states, err := s.Store.Read(ctx, buckets...)
	for i, st := range states {
		if st.Level == 0 && err == nil {
			_, err = s.Fill(ctx, store.Op{Bucket: buckets[i], Amount: buckets[i].Capacity})
		}
	}
	return states, err
}

// TestAcquireOvertaken: a caller who always comes too late is refused in the end.
func TestAcquireOvertaken(t *testing.T) {
	clock := newClock()
	most := 0
	for n := range 50 { // the first look is at the place that is taken, in a third of them
		s := &overtaken{Store: memory.New(&memory.Options{Clock: clock.Now})}
		lim := brim.New(s, nil)
		if _, err := lim.Acquire(t.Context(), "k", 1, ttl); err != nil {
			t.Fatal(err)
		}
		clock.Advance(time.Second)
		_, err := lim.Acquire(t.Context(), "k", 3, ttl)
		var over *brim.OverLimitError
		if s.reads > 0 && (!errors.As(err, &over) || over.RetryAfter != ttl-time.Second) {
			t.Errorf("attempt %d: %v; want a refusal until the first slot ends", n, err)
		}
		most = max(most, s.reads)
	}
	if most != 1 {
		t.Errorf("%d reads, want one", most)
	}
}

// allTaken is a store in which somebody else has taken each place before it is looked at. It counts
// the calls and the keys that are read.
type allTaken struct {
	store.Store
	fills, reads int
	keys         map[string]bool
}

func (s *allTaken) take(ctx context.Context, buckets ...store.Bucket) {
	for _, b := range buckets {
		_, _ = s.Store.Fill(ctx, store.Op{Bucket: b, Amount: b.Capacity, Mode: store.Clamp})
		s.keys[b.Key] = true
	}
}

func (s *allTaken) Fill(ctx context.Context, op store.Op) (store.State, error) {
	s.fills++
	s.take(ctx, op.Bucket)
	return s.Store.Fill(ctx, op)
}

func (s *allTaken) Read(ctx context.Context, buckets ...store.Bucket) ([]store.State, error) {
	s.reads++
	s.take(ctx, buckets...)
	return s.Store.Read(ctx, buckets...)
}

// TestAcquireRefusedCost: the calls and keys of a refusal do not grow with the places.
func TestAcquireRefusedCost(t *testing.T) {
	for _, c := range []struct{ most, reads, keys int }{{1, 0, 1}, {2, 1, 2}, {65, 1, 65}, {66, 1, 65}, {10_000, 1, 65}} {
		clock := newClock()
		s := &allTaken{Store: memory.New(&memory.Options{Clock: clock.Now}), keys: make(map[string]bool)}
		_, err := brim.New(s, nil).Acquire(t.Context(), "k", c.most, ttl)
		var over *brim.OverLimitError
		if !errors.As(err, &over) || over.RetryAfter != ttl || s.fills != 1 || s.reads != c.reads || len(s.keys) != c.keys {
			t.Errorf("at most %d: %v after %d fills and %d reads of %d places; want 1 fill and %d reads of %d",
				c.most, err, s.fills, s.reads, len(s.keys), c.reads, c.keys)
		}
	}
}

// TestAcquireFindsAll: up to 65 places, the last free one is found, and the same place is never
// given away twice.
func TestAcquireFindsAll(t *testing.T) {
	lim, _, _ := open(t, nil)
	for _, most := range []int{2, 64, 65} {
		for n := range most + 1 {
			if _, err := lim.Acquire(t.Context(), fmt.Sprint("of ", most), most, ttl); (err == nil) != (n < most) {
				t.Fatalf("slot %d of %d: %v", n+1, most, err)
			}
		}
	}
}

// TestKeep: the slot outlives its TTL for as long as the store answers, and its loss ends the
// context.
func TestKeep(t *testing.T) {
	for _, c := range []struct {
		name string
		// lose is called after two TTLs.
		lose  func(cut, release func())
		after time.Duration // until the context ends
		want  error         // the cause
		free  error         // of the next Acquire
	}{
		{"kept", func(func(), func()) {}, 0, nil, brim.ErrOverLimit},
		{"released", func(_, release func()) { release() }, 0, context.Canceled, nil},
		{"no store", func(cut, _ func()) { cut() }, ttl, brim.ErrSlotLost, brim.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &faulty{Store: memory.New(nil)}
				lim := brim.New(s, nil)
				slot, err := lim.Acquire(t.Context(), "k", 1, ttl)
				noError(t, err)
				ctx, release := slot.Keep(t.Context())
				defer release()
				time.Sleep(2 * ttl)
				if _, err := lim.Acquire(t.Context(), "k", 1, ttl); !errors.Is(err, brim.ErrOverLimit) || ctx.Err() != nil {
					t.Fatalf("after two TTLs: %v, %v; want a slot that is kept", err, ctx.Err())
				}
				c.lose(func() { s.down.Store(true) }, release)
				time.Sleep(c.after)
				synctest.Wait()
				_, err = lim.Acquire(t.Context(), "k", 1, ttl)
				if got := context.Cause(ctx); got != c.want || !errors.Is(err, c.free) {
					t.Errorf("the cause is %v, and the next caller gets %v; want %v, %v", got, err, c.want, c.free)
				}
			})
		})
	}
}

// TestSlotStepBack: the store's clock steps back by more than MaxSkew while a holder is stalled.
// The holder does not touch the slot of the next one.
func TestSlotStepBack(t *testing.T) {
	for name, end := range map[string]func(*brim.Slot, context.Context) error{"renew": (*brim.Slot).Renew, "release": (*brim.Slot).Release} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lim, _, clock := open(t, nil)
				first, err := lim.Acquire(t.Context(), "k", 1, ttl)
				noError(t, err)
				clock.Advance(-time.Hour)
				_, _ = lim.Acquire(t.Context(), "k", 1, ttl) // the store takes the new time
				time.Sleep(ttl)
				clock.Advance(ttl)
				if _, err := lim.Acquire(t.Context(), "k", 1, ttl); err != nil {
					t.Fatal(err)
				}
				clock.Advance(ttl / 2)
				if err := end(first, t.Context()); !errors.Is(err, brim.ErrSlotLost) {
					t.Errorf("the stalled holder: %v", err)
				}
				clock.Advance(ttl/2 - time.Microsecond)
				if _, err := lim.Acquire(t.Context(), "k", 1, ttl); !errors.Is(err, brim.ErrOverLimit) {
					t.Errorf("another holder beside the second: %v", err)
				}
			})
		})
	}
}

// faulty is a store for one goroutine at a time. It loses answers, and carries calls out late.
type faulty struct {
	store.Store
	down atomic.Bool
	r    *rand.Rand // nil: no answer is lost
	late []func()   // calls that the server has not carried out yet
}

// fault calls f, now, later or never. It reports whether the answer comes.
func (s *faulty) fault(f func()) (err error) {
	if s.down.Load() {
		return store.ErrUnavailable
	}
	n := 99
	if s.r != nil {
		n = s.r.IntN(100)
	}
	switch {
	case n < 2:
		s.late = append(s.late, f)
		return store.ErrUnknownOutcome
	case n < 4:
		return store.ErrUnknownOutcome
	case n < 6:
		return store.ErrUnavailable
	}
	if f(); n < 8 {
		return store.ErrUnknownOutcome
	}
	return nil
}

func (s *faulty) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	failed := s.fault(func() { st, err = s.Store.Fill(ctx, op) })
	return st, cmp.Or(failed, err)
}

func (s *faulty) Apply(ctx context.Context, txns ...store.Txn) (res []store.Result, err error) {
	failed := s.fault(func() { res, err = s.Store.Apply(ctx, txns...) })
	return res, cmp.Or(failed, err)
}

// witness counts the holders beside the store. A holder counts from the answer of Acquire to its
// Release, or until the TTL has passed since the last Acquire or Renew was sent.
type witness struct {
	mu    sync.Mutex
	clock *brimtest.Clock
	until map[*brim.Slot]time.Time
	most  int  // so many there were at once
	still bool // nobody advances the clock
}

// live returns the number of slots that are held.
func (w *witness) live() int {
	now := w.clock.Now()
	maps.DeleteFunc(w.until, func(_ *brim.Slot, until time.Time) bool { return !until.After(now) })
	return len(w.until)
}

// sees notes that the slot is held for the TTL from a time on.
func (w *witness) sees(slot *brim.Slot, sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until[slot] = sent.Add(ttl)
	w.most = max(w.most, w.live())
}

func (w *witness) forgets(slot *brim.Slot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.until, slot)
}

// attack has a holder acquire, renew, release, stall and die at random, n times, and returns the
// first answer that is wrong. A holder that is alone knows them all.
func (w *witness) attack(ctx context.Context, lim *brim.Limiter, r *rand.Rand, n, places int, alone bool) error {
	var held []*brim.Slot
	for range n {
		if r.IntN(5) == 0 && !w.still {
			w.clock.Advance(time.Duration(r.Int64N(int64(ttl) / 2)))
		}
		if len(held) == 0 || r.IntN(2) == 0 {
			sent := w.clock.Now()
			slot, err := lim.Acquire(ctx, "k", places, ttl)
			switch {
			case err == nil:
				w.sees(slot, sent)
				held = append(held, slot)
			case !errors.Is(err, brim.ErrOverLimit) && !failed(err):
				return err
			}
			continue
		}
		i := r.IntN(len(held))
		slot, sent := held[i], w.clock.Now()
		w.mu.Lock()
		late := !w.until[slot].After(sent)
		w.mu.Unlock()
		var err error
		action := r.IntN(9)
		switch {
		case action < 5:
			if err = slot.Renew(ctx); err == nil {
				w.sees(slot, sent)
				continue
			}
		case action < 8:
			w.forgets(slot)
			err = slot.Release(ctx)
			held = slices.Delete(held, i, i+1)
		default: // kill -9
			held = slices.Delete(held, i, i+1)
		}
		if alone && !failed(err) && action < 8 && late != errors.Is(err, brim.ErrSlotLost) {
			return fmt.Errorf("the TTL has passed: %v; the answer: %w", late, err)
		}
		if errors.Is(err, brim.ErrSlotLost) {
			w.forgets(slot)
			held = slices.DeleteFunc(held, func(h *brim.Slot) bool { return h == slot })
		}
	}
	return nil
}

func failed(err error) bool {
	return errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrUnavailable)
}

// heals reports an error unless all places are free after a TTL.
func heals(ctx context.Context, lim *brim.Limiter, clock *brimtest.Clock, places int) error {
	clock.Advance(ttl)
	for n := range places + 1 {
		if _, err := lim.Acquire(ctx, "k", places, ttl); (err == nil) != (n < places) {
			return fmt.Errorf("a TTL after the last call, slot %d of %d: %w", n+1, places, err)
		}
	}
	return nil
}

// TestSlotWitness: under kills, stalls, lost answers and calls that the server carries out late, no
// more slots are held than there are, a stalled holder is told, and all places come back.
func TestSlotWitness(t *testing.T) {
	number, err := seed.New()
	noError(t, err)
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		attempts := seed.Attempts(500, 100_000)
		if _, quick := s.(*memory.Store); quick {
			attempts = seed.Attempts(20_000, 1_000_000)
		}
		r := rand.New(rand.NewPCG(number, 0))
		f := &faulty{Store: s, r: r}
		lim, w := brim.New(f, nil), &witness{clock: clock, until: make(map[*brim.Slot]time.Time)}
		const places = 4
		for done := 0; done < attempts; done += 50 {
			if err := w.attack(t.Context(), lim, r, 50, places, true); err != nil {
				t.Fatalf("%v; repeat with BRIM_SEED=%d", err, number)
			}
			for len(f.late) > 0 && r.IntN(2) == 0 {
				f.late[0]()
				f.late = f.late[1:]
			}
		}
		for _, call := range f.late {
			call()
		}
		if err := heals(t.Context(), brim.New(s, nil), clock, places); err != nil || w.most != places {
			t.Errorf("%d holders of %d places, %v; repeat with BRIM_SEED=%d", w.most, places, err, number)
		}
	})
}

// TestSlotsTogether is TestSlotWitness for holders in several goroutines.
func TestSlotsTogether(t *testing.T) {
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		lim, w := brim.New(s, nil), &witness{clock: clock, until: make(map[*brim.Slot]time.Time)}
		const places = 5
		// The witness counts from the moment at which a call is sent, and others advance the clock
		// meanwhile. So the first round may see fewer holders than there are places. In the second
		// one time stands still, and slots of holders that die stay, until all places have one.
		for round := range uint64(2) {
			w.still = round == 1
			clock.Advance(ttl)
			var wg sync.WaitGroup
			for n := range uint64(8) {
				wg.Go(func() {
					attempts := seed.Attempts(60, 12_500)
					if err := w.attack(t.Context(), lim, rand.New(rand.NewPCG(n, round)), attempts, places, false); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		if err := heals(t.Context(), lim, clock, places); err != nil || w.most != places {
			t.Errorf("%d holders of %d places, %v", w.most, places, err)
		}
	})
}

// TestSlotOfAFullStore: a slot has an owner, so no shared bucket gives it away.
func TestSlotOfAFullStore(t *testing.T) {
	lim := brim.New(memory.New(&memory.Options{MaxBuckets: 1}), nil)
	must(t)(lim.TryFillup(t.Context(), tens.For("k"), 5))
	_, err := lim.Acquire(t.Context(), "exports", 3, time.Minute)
	if !errors.Is(err, brim.ErrFull) || errors.Is(err, brim.ErrUnavailable) {
		t.Errorf("Acquire: %v; want ErrFull, which opens nothing", err)
	}
	if _, err := lim.Hold(t.Context(), tens.For("new"), 1); !errors.Is(err, brim.ErrFull) {
		t.Errorf("Hold: %v; want ErrFull", err)
	}
	if _, err := lim.Block(t.Context(), "new", time.Minute); !errors.Is(err, brim.ErrFull) {
		t.Errorf("Block: %v; want ErrFull", err)
	}
}
