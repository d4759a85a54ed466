package lin

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// flaw is a defect of a store in this process.
type flaw string

const (
	lostUpdate   flaw = "lost update"
	timeBack     flaw = "time steps back"
	refusalWrite flaw = "a refusal writes"
	stuck        flaw = "a refusal is remembered for ever"
)

// flawed is a store with a flaw. It has the calls of histories on single buckets.
type flawed struct {
	store.Store // nil
	flaw        flaw
	clock       func() time.Time

	mu   sync.Mutex
	recs map[string]*store.Record
	full map[string]bool // buckets that have refused once
}

func newFlawed(f flaw, clock func() time.Time) *flawed {
	return &flawed{flaw: f, clock: clock, recs: make(map[string]*store.Record), full: make(map[string]bool)}
}

func (s *flawed) record(key string, now int64) store.Record {
	if r := s.recs[key]; r != nil {
		return *r
	}
	return store.NewRecord(now)
}

func (s *flawed) Fill(_ context.Context, op store.Op) (store.State, error) {
	now := s.clock().UnixMicro()
	if s.flaw == timeBack {
		runtime.Gosched()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.record(op.Key, now)
	switch {
	case s.flaw == lostUpdate:
		s.mu.Unlock()
		runtime.Gosched()
		s.mu.Lock()
	case s.flaw == timeBack:
		r.Time = min(r.Time, now)
	case s.flaw == stuck && s.full[op.Key] && op.Mode == store.IfFits:
		st := r.State(op.Limit, now, store.DefaultMaxSkew)
		st.Estimate = true
		return st, nil
	}
	st, effect, err := r.Fill(&op, now, store.DefaultMaxSkew)
	if s.flaw == refusalWrite && err == nil && op.Mode == store.IfFits && !st.Accepted {
		r.Level++
	}
	s.full[op.Key] = s.full[op.Key] || op.Mode == store.IfFits && !st.Accepted
	if effect&store.Write != 0 || s.flaw == refusalWrite {
		s.recs[op.Key] = &r
	}
	return st, err
}

func (s *flawed) Read(_ context.Context, buckets ...store.Bucket) ([]store.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock().UnixMicro()
	r := s.record(buckets[0].Key, now)
	return []store.State{r.State(buckets[0].Limit, now, store.DefaultMaxSkew)}, nil
}

func (s *flawed) Delete(_ context.Context, ks ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range ks {
		delete(s.recs, k)
	}
	return nil
}

func (s *flawed) Prune(context.Context) (int64, error) { return 0, nil }
func (s *flawed) Close() error                         { return nil }

// inFlawed returns a store with a flaw.
func inFlawed(f flaw, m func(*storeModel) model) func(r *rand.Rand) (world, plan, error) {
	return func(r *rand.Rand) (world, plan, error) {
		w, err := onMemory(r, func(_ store.Store, clock func() time.Time) ([]store.Store, error) {
			return []store.Store{newFlawed(f, clock)}, nil
		})
		if err != nil {
			return nil, plan{}, err
		}
		w.m = m(w.exact)
		return w, planStore(r, style{clock: true, back: true, single: true, asks: true}), nil
	}
}

// inUnsteady returns a memory store with options that depend on a clock.
func inUnsteady(options func(clock func() time.Time) *memory.Options) func(r *rand.Rand) (world, plan, error) {
	return func(r *rand.Rand) (world, plan, error) {
		w, err := onMemory(r, func(_ store.Store, clock func() time.Time) ([]store.Store, error) {
			return []store.Store{memory.New(options(clock))}, nil
		})
		return w, planStore(r, style{clock: true, back: true}), err
	}
}

func exactly(m *storeModel) model { return m }

// deciding decides about fills in the client, between a call that reads and a call that writes.
type deciding struct{ store.Store }

func (s deciding) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if op.Mode != store.IfFits || op.Amount <= 0 || op.Hold != 0 {
		return s.Store.Fill(ctx, op)
	}
	states, err := s.Store.Read(ctx, op.Bucket)
	if err != nil || states[0].Level+states[0].Held+op.Amount > op.Capacity {
		return s.Store.Fill(ctx, op)
	}
	op.Mode = store.Always
	return s.Store.Fill(ctx, op)
}

func apart(_ *rand.Rand, below []store.Store) ([]store.Store, bool, error) {
	return []store.Store{deciding{below[0]}, deciding{below[1]}}, true, nil
}

// defect is a fault in the answers of a store on a server.
type defect string

const (
	early   defect = "an answer before the call"
	mistold defect = "unknown as not applied"
	again   defect = "a resend after an unknown outcome"
)

func (d defect) spoil(call func() error) error {
	err := call()
	for d == again && errors.Is(err, store.ErrUnknownOutcome) {
		err = call()
	}
	if d == mistold && errors.Is(err, store.ErrUnknownOutcome) {
		return store.ErrUnavailable
	}
	return err
}

// spoiled is a store with a defect.
type spoiled struct {
	store.Store
	defect
}

func (s spoiled) Fill(ctx context.Context, op store.Op) (st store.State, err error) {
	if s.defect == early { // as if the bucket were empty
		go func() { _, _ = s.Store.Fill(context.WithoutCancel(ctx), op) }()
		return store.State{
			Accepted: true, Level: op.Amount, Held: op.Hold, At: time.Now(), Capacity: op.Capacity, LeakRate: op.LeakRate,
		}, nil
	}
	err = s.spoil(func() error { st, err = s.Store.Fill(ctx, op); return err })
	return st, err
}

func (s spoiled) Apply(ctx context.Context, txns ...store.Txn) (results []store.Result, err error) {
	err = s.spoil(func() error { results, err = s.Store.Apply(ctx, txns...); return err })
	return results, err
}

func (s spoiled) Update(ctx context.Context, fn func(store.Store) error) error {
	return s.spoil(func() error { return s.Store.(transacting).Update(ctx, fn) })
}

func (s spoiled) With(tx pgx.Tx) store.Store { return s.Store.(transacting).With(tx) }

// spoil has the clients call stores with a defect.
func spoil(d defect) joining {
	return func(_ *rand.Rand, below []store.Store) ([]store.Store, bool, error) {
		return []store.Store{spoiled{below[0], d}, spoiled{below[1], d}}, true, nil
	}
}

// spoiledLedger is a ledger with a defect.
type spoiledLedger struct {
	joiner
	defect
}

func (l spoiledLedger) Decide(ctx context.Context, job *ledger.Job) error {
	return l.spoil(func() error { return l.joiner.Decide(ctx, job) })
}

// stillHeld is a ledger that notes the cancellation of a request, and keeps its hold.
type stillHeld struct{ ledger.Ledger }

func (l stillHeld) Decide(ctx context.Context, job *ledger.Job) error {
	own := *job
	own.Run = func(s ledger.Snapshot) (*ledger.Changes, error) {
		c, err := job.Run(s)
		if c != nil && len(c.Replaced) > 0 {
			c = &ledger.Changes{Replaced: c.Replaced}
		}
		return c, err
	}
	return l.Ledger.Decide(ctx, &own)
}

func inStillHeld(r *rand.Rand) (world, plan, error) {
	w, p, err := inMemledger(r)
	if l, ok := w.(*inProcess); ok && err == nil {
		l.spends, err = l.spends.b.over(context.Background(), stillHeld{l.inner.(ledger.Ledger)})
	}
	return w, p, err
}

// forgetful is a ledger that forgets the names of accounts that have moved.
type forgetful struct{ ledger.Ledger }

func (l forgetful) Decide(ctx context.Context, job *ledger.Job) error {
	own := *job
	own.Run = func(s ledger.Snapshot) (*ledger.Changes, error) {
		c, err := job.Run(s)
		if c != nil && len(c.Moved) > 0 {
			c.Requests = slices.DeleteFunc(c.Requests, func(r ledger.Request) bool { return r.ID[0] == 1 })
		}
		return c, err
	}
	return l.Ledger.Decide(ctx, &own)
}

func inForgetful(r *rand.Rand) (world, plan, error) {
	w, p, err := inMemledger(r)
	if l, ok := w.(*inProcess); ok && err == nil {
		l.spends, err = l.spends.b.over(context.Background(), forgetful{l.inner.(ledger.Ledger)})
	}
	return w, p, err
}

// outdated is a ledger whose decisions go by rules that were read before their accounts were
// locked.
type outdated struct {
	ledger.Ledger
	rules func(budget string) (ledger.Rules, error)
}

func (l outdated) Decide(ctx context.Context, job *ledger.Job) error {
	if len(job.Requests) == 0 { // it sets rules
		return l.Ledger.Decide(ctx, job)
	}
	old := outdatedSnapshot{rules: make(map[string]ledger.Rules)}
	for _, k := range job.Rules {
		r, err := l.rules(k.Budget)
		if err != nil {
			return err
		}
		old.rules[k.Budget] = r
	}
	own := *job
	own.Run = func(s ledger.Snapshot) (*ledger.Changes, error) { return job.Run(outdatedSnapshot{s, old.rules}) }
	return l.Ledger.Decide(ctx, &own)
}

type outdatedSnapshot struct {
	ledger.Snapshot
	rules map[string]ledger.Rules
}

func (s outdatedSnapshot) Rules(budget string) (ledger.Rules, error) { return s.rules[budget], nil }

// newest returns the newest rules of a budget.
func newest(l ledger.Ledger, budget string) (r ledger.Rules, err error) {
	job := &ledger.Job{Rules: []ledger.Known{{Budget: budget}}, Run: func(s ledger.Snapshot) (_ *ledger.Changes, err error) {
		r, err = s.Rules(budget)
		return nil, err
	}}
	return r, l.View(context.Background(), job)
}

// inOutdated returns a ledger with two processes. outdate replaces the ledger of both, or of one.
func inOutdated(outdate func(s *budgets, b *budget, l ledger.Ledger) error) func(r *rand.Rand) (world, plan, error) {
	return func(r *rand.Rand) (world, plan, error) {
		w, p, err := inMemledger(r)
		if l, ok := w.(*inProcess); ok && err == nil {
			err = outdate(l.spends, l.spends.b, l.inner.(ledger.Ledger))
		}
		return w, p, err
	}
}

// readEarly has all decisions go by rules that were read some decisions ago.
func readEarly(s *budgets, b *budget, l ledger.Ledger) error {
	all, err := b.over(context.Background(), remembering(l, 2*clients))
	if err == nil {
		*s = *all
	}
	return err
}

// readOnce has one of two processes decide by the rules that it has read first.
func readOnce(s *budgets, b *budget, l ledger.Ledger) (err error) {
	s.other, err = b.process(context.Background(), remembering(l, math.MaxInt))
	return err
}

// remembering returns a ledger whose decisions go by the rules of so many decisions ago.
func remembering(l ledger.Ledger, ago int) ledger.Ledger {
	var mu sync.Mutex
	all := make(map[string][]ledger.Rules)
	return outdated{l, func(budget string) (ledger.Rules, error) {
		mu.Lock()
		defer mu.Unlock()
		r, err := newest(l, budget)
		list := append(all[budget], r)
		all[budget] = list
		return list[max(0, len(list)-1-ago)], err
	}}
}

func mistelling(l joiner) joiner { return spoiledLedger{l, mistold} }

// altered is a ledger that gets some requests otherwise than its callers send them.
type altered struct {
	*inProcess
	alter func(w *altered, q spendRequest) spendRequest
}

func (w *altered) do(ctx context.Context, client int, in request) response {
	if q, ok := in.(spendRequest); ok {
		in = w.alter(w, q)
	}
	return w.inProcess.do(ctx, client, in)
}

func inAltered(alter func(w *altered, q spendRequest) spendRequest) func(r *rand.Rand) (world, plan, error) {
	return func(r *rand.Rand) (world, plan, error) {
		w, p, err := inMemledger(r)
		if l, ok := w.(*inProcess); ok {
			return &altered{inProcess: l, alter: alter}, p, err
		}
		return w, p, err
	}
}

// retold is a ledger whose answers come otherwise than it gives them.
type retold struct {
	*inProcess
	alter func(d *spend.Decision)
}

func (w *retold) do(ctx context.Context, client int, in request) response {
	a, ok := w.inProcess.do(ctx, client, in).(spendAnswer)
	if ok && a.Err == "" && a.Mistake == "" {
		w.alter(&a.Decision)
	}
	return a
}

func inRetold(alter func(d *spend.Decision)) func(r *rand.Rand) (world, plan, error) {
	return func(r *rand.Rand) (world, plan, error) {
		w, p, err := inMemledger(r)
		if l, ok := w.(*inProcess); ok {
			return &retold{inProcess: l, alter: alter}, p, err
		}
		return w, p, err
	}
}

// late has the waits of declines end a second later.
func late(d *spend.Decision) {
	for i := range d.Declines {
		if x := &d.Declines[i]; x.RetryAfter < store.Never && !x.AtLeast {
			x.RetryAfter += time.Second
			d.RetryAfter = max(d.RetryAfter, x.RetryAfter)
		}
	}
}

// swollen tells a larger limit of the last rule than that of the account.
func swollen(d *spend.Decision) {
	if n := len(d.Remaining); n > 0 && !d.Approved {
		d.Remaining = slices.Clone(d.Remaining)
		d.Remaining[n-1].Limit.Minor++
	}
}

// renamed sends some requests twice, under two IDs, as a caller that gives a request that it sends
// again a new ID.
func renamed(w *altered, q spendRequest) spendRequest {
	if (q.Verb == charge || q.Verb == authorize) && q.Number%16 == 0 {
		again := q
		again.Number += 1 << 20
		w.inProcess.do(context.Background(), 0, again)
	}
	return q
}

// thawed loses some requests that freeze an account.
func thawed(_ *altered, q spendRequest) spendRequest {
	if q.Verb == freeze && q.Number%2 == 0 {
		q.Verb = unfreeze
	}
	return q
}

// unforced sends captures that the rules may decline.
func unforced(_ *altered, q spendRequest) spendRequest {
	q.Force = q.Force && q.Verb != capture
	return q
}

// doubled adds to limits twice.
func doubled(_ *altered, q spendRequest) spendRequest {
	if q.Add {
		q.Amount *= 2
	}
	return q
}

// endless loses the end of an account's own limit.
func endless(_ *altered, q spendRequest) spendRequest {
	q.Until = 0
	return q
}

// slowly has all answers of a place come late.
func slowly(open func() *place) func() *place {
	return func() *place {
		at := open()
		at.slow = true
		return at
	}
}

// TestCatches has the harness find the faults of defective subjects.
func TestCatches(t *testing.T) {
	at, in := newPlace(t, false), newKeyspace(t)
	crashed := slowly(newServerPlace(t, "", 0, crashes))
	var crashing, lazing, killing sync.Mutex // tests share these servers
	killed := newLone(t, always...)
	lazy := newServerPlace(t, "&synchronous_commit=off", 0, crashes)
	type faulty struct {
		name, why string
		open      func(r *rand.Rand) (world, plan, error)
		alone     *sync.Mutex
	}
	subjects := []faulty{
		{
			name: string(lostUpdate), open: inFlawed(lostUpdate, exactly),
			why: "two calls read the same level, and the later write hides the earlier one",
		},
		{
			name: string(timeBack), open: inFlawed(timeBack, exactly),
			why: "the bucket's time goes back, and the same seconds leak twice",
		},
		{
			name: "a step back that is not believed", open: inUnsteady(func(clock func() time.Time) *memory.Options {
				return &memory.Options{Clock: clock, MaxSkew: time.Microsecond}
			}),
			why: "the bucket believes no time ahead of the clock, and leaks twice for the time between",
		},
		{
			name: "a clock that runs fast", open: inUnsteady(func(clock func() time.Time) *memory.Options {
				return &memory.Options{Clock: func() time.Time { return clock().Add(clock().Sub(history.At(0)) / 50) }}
			}),
			why: "a second of the clock leaks for more than a second",
		},
		{
			name: string(refusalWrite), open: inFlawed(refusalWrite, exactly),
			why: "a refused call changed the level",
		},
		{
			name: "an answer before the write", open: inFile(Setting{Segment: segment, SyncEvery: time.Hour, Defect: history.Early}),
			why: "a kill loses calls that were acknowledged",
		},
		{
			name: "a decision between two calls of Redis", open: inRedis(in, apart),
			why: "two calls find the same room, and both take it",
		},
		{
			name: "synchronous_commit=off", open: inPostgres(lazy, nil), alone: &lazing,
			why: "the server answers before it has written the commit",
		},
		{
			name: "synchronous_commit=off of a ledger", open: inPgledger(lazy, nil), alone: &lazing,
			why: "the server answers before it has written the commit",
		},
		{
			name: "a crash, " + string(mistold) + " of a ledger", open: inPgledger(crashed, mistelling), alone: &crashing,
			why: "the server may have committed",
		},
		{
			name: "a stopped server, " + string(mistold), open: inPostgres(newServerPlace(t, "", hasty, stops[:1]), spoil(mistold)),
			why: "the server goes on with statements that it got before it was stopped",
		},
		{
			name: "no append-only file", open: inRedis(newLone(t), nil),
			why: "the server answers, and writes nothing",
		},
		{
			name: "a fail-over without Replicas", open: inRedis(newPair(t, 0, failOver), nil),
			why: "the primary answers before its replica has the write",
		},
		{
			name: "a stopped primary without Replicas", open: inRedis(newPair(t, 0, stopPrimary), nil),
			why: "it goes on, and answers although another has taken over",
		},
		{
			name: "a bucket that stays behind", open: inRedis(newCluster(t, leaveBehind), nil),
			why: "a slot moves without one of its keys",
		},
		{
			name: string(stuck), open: inFlawed(stuck, func(m *storeModel) model { return refusalsModel{m} }),
			why: "the bucket has room again, and memory refuses",
		},
		{
			name: "rules that are read before the lock", open: inOutdated(readEarly),
			why: "an account goes back to older rules",
		},
		{
			name: "a process with its own rules", open: inOutdated(readOnce),
			why: "it never hears of newer ones",
		},
		{
			name: "a new ID for a resend", open: inAltered(renamed),
			why: "a request has two effects",
		},
		{
			name: "a cancellation that keeps the hold", open: inStillHeld,
			why: "a canceled request holds money",
		},
		{
			name: "a name that is forgotten", open: inForgetful,
			why: "a request under it begins a new account, with all of its limit",
		},
		{
			name: "a forced capture that is declined", open: inAltered(unforced),
			why: "money that has moved does not count",
		},
		{
			name: "a limit that is added twice", open: inAltered(doubled),
			why: "an account has more or less than its limit",
		},
		{
			name: "a freeze that is lost", open: inAltered(thawed),
			why: "an account spends that is frozen",
		},
		{
			name: "a wait that is too long", open: inRetold(late),
			why: "the amount fits before the decline says so",
		},
		{
			name: "a limit that is not the account's", open: inRetold(swollen),
			why: "the figures of a decline are those of another limit",
		},
		{
			name: "an own limit without its end", open: inAltered(endless),
			why: "an account has its own limit for ever",
		},
	}
	for d, why := range map[defect]string{
		early: "the fill was not sent yet", mistold: "the server may have applied it", again: "the first may have been applied",
	} {
		subjects = append(subjects,
			faulty{"a crash, " + string(d), why, inPostgres(crashed, spoil(d)), &crashing},
			faulty{"a kill of Redis, " + string(d), why, inRedis(killed, spoil(d)), &killing})
	}
	for name, open := range map[string]func(*rand.Rand) (world, plan, error){
		"a cut, ": inPostgres(at, spoil(again)), "a cut of Redis, ": inRedis(in, spoil(again)),
	} {
		subjects = append(subjects, faulty{name + string(again), "a call of unknown outcome was applied, and then once more", open, nil})
	}
	for _, c := range subjects {
		t.Run(c.name, func(t *testing.T) {
			parallelByDay(t)
			s := subject{name: c.name, open: c.open, alone: c.alone}
			for part := range 200 {
				f, _, err := s.try(harness.Seed(1).Part(part), nil)
				if err != nil {
					t.Fatal(err)
				}
				if f != nil {
					t.Logf("caught in history %d; %d calls contradict the model", part+1, len(f.part))
					return
				}
			}
			t.Errorf("200 histories did not catch it; %s", c.why)
		})
	}
}

// TestShrinks: the history that is shown is short, and is still not allowed. The system's scheduler
// decides whether an attempt shows the defect again, so a history that stayed long gives way to the
// next one with a finding.
func TestShrinks(t *testing.T) {
	s := subject{open: inFlawed(refusalWrite, exactly)}
	findings := 0
	for part := range 50 {
		seed := harness.Seed(1).Part(part)
		f, _, err := s.try(seed, nil)
		if err != nil {
			t.Fatal(err)
		}
		if f == nil {
			continue
		}
		findings++
		short := shrinkPlan(s, seed, f, 10*time.Second).shrink()
		if !illegal(short.m, short.part, patience) {
			t.Fatalf("the model allows the shorter history: %s", short.describe())
		}
		t.Log(short.describe())
		if len(short.part) <= 6 {
			return
		}
	}
	t.Errorf("of %d histories with a finding, none became 6 calls at most", findings)
}
