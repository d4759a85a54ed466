package lin

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/lab/internal/harness"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/store"
)

// variant is a setting of the connections, with which the driver sends other messages and words its
// errors differently.
type variant struct {
	name  string
	whole bool // in the night, every byte is cut
}

// cutSubject is a store or a ledger whose exchanges are cut.
type cutSubject struct {
	name      string
	settings  []variant
	open      func(t *testing.T, setting string, d defect) *rig
	exchanges []exchange
}

var cutSubjects = []cutSubject{
	{"postgres", []variant{{"prepared", true}, {"exec", false}}, newPostgresRig, append(storeExchanges, transactions...)},
	{"spend", []variant{{"prepared", true}, {"exec", false}}, newPostgresRig, append(spendExchanges, cancelExchanges...)},
	{"redis", []variant{{resp3, true}, {resp2, false}, {waits, true}}, newRedisRig, storeExchanges},
}

// TestCut cuts the connection of every kind of call. By night, it cuts after every byte.
func TestCut(t *testing.T) {
	seed, err := harness.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range cutSubjects {
		for _, mode := range s.settings {
			t.Run(s.name+"/"+mode.name, func(t *testing.T) { testCut(t, seed, s, mode) })
		}
	}
}

func testCut(t *testing.T, seed harness.Seed, s cutSubject, mode variant) {
	parallelByDay(t)
	rigs := make([]*rig, 2)
	if harness.Night() {
		rigs = make([]*rig, 4)
	}
	for i := range rigs {
		rigs[i] = s.open(t, mode.name, "")
	}
	all, bytes := 0, 0
	pick := seed.Part(len(t.Name())).Rand()
	for _, e := range withConnect(s.exchanges) {
		if !harness.Night() && pick.IntN(4) > 0 { // by day, a sample
			continue
		}
		t.Run(e.name, func(t *testing.T) {
			repeat := seed.Repeat("lin", fmt.Sprintf("TestCut/%s/%s/%s$", s.name, mode.name, strings.ReplaceAll(e.name, " ", "_")))
			lengths, err := e.measure(t.Context(), rigs[0])
			if err != nil {
				t.Fatalf("%v\nrepeat: %s", err, repeat)
			}
			list := cutsOf(lengths, mode.whole, seed.Rand())
			came, short, err := e.cutAll(t.Context(), rigs, list)
			all, bytes = all+came, bytes+lengths[0]+lengths[1]
			switch {
			case err != nil:
				t.Errorf("%v\nrepeat: %s", err, repeat)
			case came+short < len(list) || short > len(list)/50+1:
				t.Errorf("%d of %d cuts came, and %d were beyond the end\nrepeat: %s", came, len(list), short, repeat)
			}
		})
	}
	t.Logf("seed %d: %d cuts in exchanges of %d bytes", seed, all, bytes)
}

// withConnect adds exchanges that begin with the connection: of the first call, and of the
// questions.
func withConnect(list []exchange) []exchange {
	all := list
	for i, e := range list {
		if i == 0 || e.special != nil || e.in != nil && !e.in[0].writes(nil) {
			e.name, e.fresh = e.name+" with connect", true
			all = append(all[:len(all):len(all)], e)
		}
	}
	return all
}

// cutsOf returns the cuts of an exchange: a sample, or in the night one after every byte of both
// directions. The modes alternate, and the seed says which one begins. Partitions take their
// time, so they are a sample in the night, too, and so are delays, after which all goes on. Without
// whole, all cuts are a sample, which saves hours.
func cutsOf(lengths [2]int, whole bool, r *rand.Rand) []*cut {
	sample := func(modes ...mode) *cut {
		way := wire.Direction(r.IntN(2))
		return &cut{mode: modes[r.IntN(len(modes))], way: way, at: r.IntN(lengths[way] + 1)}
	}
	if !harness.Night() {
		list := []*cut{sample(closes), sample(resets, halves, delays)}
		if r.IntN(20) == 0 {
			list = append(list, sample(loses))
		}
		return list
	}
	var list []*cut
	first := r.IntN(len(breaks))
	for way, n := range lengths {
		for at := range n + 1 {
			list = append(list, &cut{mode: breaks[(first+at)%len(breaks)], way: wire.Direction(way), at: at})
		}
	}
	if !whole {
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:min(200, len(list))]
	}
	for range 5 {
		list = append(list, sample(delays), sample(delays), sample(loses))
	}
	return list
}

// exchange is a call and all that it sends and receives.
type exchange struct {
	name   string
	before []request // that are sent past the tap, or through it if near
	near   bool
	in     []request // the call, which decides several requests if there are more
	fresh  bool      // the exchange begins with the connection
	// special is a call that no model knows: its needs, its answer about each of its parts, and how
	// often each part was applied.
	special *special
}

type special struct {
	before func(context.Context, *attempt) error
	call   func(context.Context, *attempt) []error
	look   func(context.Context, *attempt) ([]int, error)
	asks   bool // the call changes nothing
	spends bool // the call is one of a ledger
}

// measure makes the call without a cut and returns the bytes that it sends and receives. A call may
// ask more than others, such as the size of its table, once a second: cuts there would not come in
// the calls after it. So measure calls again until a call is no shorter than the one before it, and
// returns the shorter one.
func (e exchange) measure(ctx context.Context, r *rig) (lengths [2]int, err error) {
	for first := true; ; first = false {
		k := &cut{at: -1}
		if err := e.run(ctx, r, k); err != nil {
			return k.counts, fmt.Errorf("without a cut: %w", err)
		}
		if !first && k.counts[0]+k.counts[1] >= lengths[0]+lengths[1] {
			return lengths, nil
		}
		lengths = k.counts
	}
}

// cutAll cuts the call at each place of the list. It returns the number of cuts that came, and of
// those that did not in five calls, which all ended before: the length of an exchange may vary.
func (e exchange) cutAll(ctx context.Context, rigs []*rig, list []*cut) (came, short int, err error) {
	work := make(chan *cut, len(list))
	for _, k := range list {
		work <- k
	}
	close(work)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, r := range rigs {
		wg.Go(func() {
			for k := range work {
				mu.Lock()
				stop := err != nil
				mu.Unlock()
				var failure error
				for n := 0; n < 5 && !k.done && failure == nil && !stop; n++ {
					k.counts = [2]int{}
					failure = e.run(ctx, r, k)
				}
				mu.Lock()
				switch {
				case failure != nil:
					err = errors.Join(err, failure)
				case k.done:
					came++
				case k.counts[k.way] < k.at:
					short++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return came, short, err
}

// errFalse is the error of an answer that is not true.
var errFalse = errors.New("the answer is false")

// run makes the call under a cut. It returns an error if the answer is not true.
func (e exchange) run(ctx context.Context, r *rig, k *cut) error {
	if e.fresh {
		r.hangUp()
	} else { // a whole call makes a connection that knows the statements
		a, err := e.prepare(ctx, r)
		if err != nil {
			return err
		}
		for _, failed := range e.call(ctx, a) {
			if failed.err != nil {
				return fmt.Errorf("the store does not go on after the cut: %w", failed.err)
			}
		}
	}
	a, err := e.prepare(ctx, r)
	if err != nil {
		return err
	}
	r.tap.arm(k)
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answers := e.call(limited, a)
	r.tap.arm(nil)
	if err := r.ended(); err != nil {
		return err
	}
	a.rec.dead()
	wrong := func(text any) error {
		return fmt.Errorf("%s, %s after byte %d of %v: %w: %v: %v", e.name, k.mode, k.at, k.way, errFalse, answers, text)
	}
	for _, answer := range answers {
		switch {
		case answer.odd != "":
			return wrong("an error that tells nothing about the outcome")
		case answer.failure == history.Unknown && e.asks():
			return wrong("a question has no unknown outcome")
		case answer.failure != "" && (!k.done || k.mode == delays):
			return wrong("without a cut")
		}
	}
	if e.special == nil {
		return e.judge(ctx, a, wrong)
	}
	applied, err := e.special.look(ctx, a)
	for i, n := range applied {
		least, most := 1, 1
		if f := answers[i].failure; f != "" {
			least = 0
			if f == history.NotApplied {
				most = 0
			}
		}
		if !e.special.asks && (n < least || n > most) {
			return wrong(fmt.Sprintf("part %d was applied %d times", i+1, n))
		}
	}
	return err
}

// spends reports whether the call is one of a ledger.
func (e exchange) spends() bool {
	if e.special != nil {
		return e.special.spends
	}
	_, ok := e.in[0].(spendRequest)
	return ok
}

func (e exchange) asks() bool {
	if e.special != nil {
		return e.special.asks
	}
	q, ok := e.in[0].(storeRequest)
	return !e.in[0].writes(nil) && !(ok && q.Kind == history.Fill)
}

// judge reads all that the call has touched, after a request of unknown outcome was sent again, and
// compares the history with the model.
func (e exchange) judge(ctx context.Context, a *attempt, wrong func(any) error) error {
	for _, c := range a.rec.all() {
		if q, ok := c.in.(spendRequest); ok && c.out == nil {
			if err := a.record(ctx, q); err != nil {
				return err
			}
		}
	}
	finals := allKeys()
	if a.through.spends != nil {
		finals = allAccounts()
	}
	for _, in := range finals {
		if err := a.record(ctx, in); err != nil {
			return err
		}
	}
	calls := resolved(a.rec.all())
	if v := check(a.m, calls, recovery); len(v.part) > 0 {
		f := finding{a.m, v.part}
		return wrong(f.describe())
	}
	return nil
}

// prepare returns an attempt after the calls before.
func (e exchange) prepare(ctx context.Context, r *rig) (*attempt, error) {
	a := r.attempt()
	if e.spends() {
		if err := a.spends(ctx); err != nil {
			return nil, err
		}
	}
	if e.special != nil && e.special.before != nil {
		return a, e.special.before(ctx, a)
	}
	for _, in := range e.before {
		if e.near {
			for _, failed := range a.send(ctx, []request{in}, false) {
				if failed.err != nil {
					return nil, failed.err
				}
			}
		} else if err := a.record(ctx, in); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// told is an answer in short.
type told struct {
	failure history.Failure
	odd     string
	err     error
}

func (a told) String() string { return fmt.Sprint(a.err) }

func toldBy(out response) told {
	if out.failure() == "" {
		return told{}
	}
	return told{out.failure(), out.odd(), fmt.Errorf("%s: %+v", out.failure(), out)}
}

// call makes the call through the tap.
func (e exchange) call(ctx context.Context, a *attempt) (all []told) {
	if e.special == nil {
		return a.send(ctx, e.in, false)
	}
	for _, err := range e.special.call(ctx, a) {
		all = append(all, toldBy(storeResponse{history.Failed(err)}))
	}
	return all
}

// attempt is a call with buckets and accounts of its own, and the calls before and after it.
type attempt struct {
	*rig
	number  int
	m       model
	through callee // the tap
	past    callee
	rec     recorder
}

// record sends a request past the tap.
func (a *attempt) record(ctx context.Context, in request) error {
	for _, failed := range a.send(ctx, []request{in}, true) {
		if failed.err != nil {
			return failed.err
		}
	}
	return nil
}

// send sends the requests of a call, and records them.
func (a *attempt) send(ctx context.Context, in []request, past bool) (all []told) {
	began := a.rec.stamp()
	way := &a.through
	if past {
		way = &a.past
	}
	var answers []response
	if len(in) == 1 {
		answers = append(answers, way.do(ctx, 0, in[0]))
	} else {
		answers = way.spends.chargeAll(ctx, in)
	}
	for i, out := range answers {
		all = append(all, toldBy(out))
		a.rec.finish(&call{in: in[i], out: out, began: began})
	}
	return all
}

// fillOne is a fill of one bucket.
func fillOne(key int, amount, hold float64, mode store.Mode) storeRequest {
	return storeRequest{history.Op{Kind: history.Fill, Txns: [][]history.Move{{{Key: key, Amount: amount, Hold: hold, Mode: mode}}}}}
}

var (
	filled  = []request{fillOne(0, 5, 0, store.IfFits)}
	holding = []request{fillOne(0, 0, 5, store.IfFits)}
	twoOf   = [][]history.Move{{{Key: 0, Amount: 5}, {Key: 1, Amount: 5}}}
	each2   = [][]history.Move{{{Key: 0, Amount: 5}}, {{Key: 1, Amount: 5}}}
)

var storeExchanges = []exchange{
	{name: "try", in: filled},
	{name: "fillup", in: []request{fillOne(0, 5, 0, store.Clamp)}},
	{name: "drain", before: filled, in: []request{fillOne(0, -1, 0, store.Always)}},
	{name: "hold", in: holding},
	{name: "capture", before: holding, in: []request{fillOne(0, 1, -1, store.Always)}},
	{name: "release", before: holding, in: []request{fillOne(0, 0, -1, store.Always)}},
	{name: "all", in: []request{storeRequest{history.Op{Kind: history.Apply, Txns: twoOf}}}},
	{name: "read", before: filled, in: []request{storeRequest{history.Op{Kind: history.Read, Keys: []int{0}}}}},
	{name: "delete", before: filled, in: []request{storeRequest{history.Op{Kind: history.Delete, Keys: []int{0}}}}},
	{name: "prune", special: &special{
		before: func(ctx context.Context, a *attempt) error {
			a.clear(ctx)
			op := store.Op{Bucket: store.Limit{Capacity: 1, LeakRate: 1 << 40}.For(a.past.bucket(0).Key), Amount: 1}
			_, err := a.soundPruning.Fill(ctx, op)
			time.Sleep(2 * maxSkew) // on the server's clock: the bucket expires
			return err
		},
		call: func(ctx context.Context, a *attempt) []error {
			_, err := a.pruning.Prune(ctx)
			return []error{err}
		},
		look: func(ctx context.Context, a *attempt) ([]int, error) {
			left := 0
			err := a.soundPruning.Visit(ctx, a.past.bucket(0).Key, func(store.Entry) bool { left++; return true })
			return []int{1 - left}, err
		},
	}},
}

// transactions are the exchanges of a store in PostgreSQL.
var transactions = []exchange{
	{name: "update", in: []request{storeRequest{history.Op{Kind: update, Txns: each2}}}},
	{name: "with", in: []request{storeRequest{history.Op{Kind: with, Txns: each2}}}},
}

// second is a request 2, about account 0.
func second(v verb, amount int64) []request {
	return []request{spendRequest{Verb: v, Number: 2, Amount: amount}}
}

// spendOf is a request 2, about the spend that request 1 began.
func spendOf(v verb, amount int64) []request {
	return []request{spendRequest{Verb: v, Number: 2, Spend: 1, Amount: amount}}
}

var (
	authorized = []request{spendRequest{Verb: authorize, Number: 1, Amount: 3}}
	paid       = []request{spendRequest{Verb: charge, Number: 1, Amount: 3}}
)

var spendExchanges = []exchange{
	{name: "charge", in: second(charge, 3)},
	{name: "record", in: second(record, 3)},
	{name: "authorize", in: second(authorize, 3)},
	{name: "capture", before: authorized, in: []request{spendRequest{Verb: capture, Number: 2, Spend: 1, Amount: 3, Final: true}}},
	{name: "void", before: authorized, in: spendOf(void, 0)},
	{name: "increase", before: authorized, in: spendOf(increase, 1)},
	{name: "decrease", before: authorized, in: spendOf(decrease, 1)},
	{name: "extend", before: authorized, in: spendOf(extend, 0)},
	{name: "refund", before: paid, in: spendOf(refund, 1)},
	{name: "reverse", before: append(paid, spendOf(refund, 2)...), in: []request{spendRequest{Verb: reverse, Number: 3, Spend: 1, Amount: 1}}},
	{name: "both", in: []request{spendRequest{Verb: charge, Number: 2, Amount: 3, Shared: true}}},
	{name: "joined", in: []request{spendRequest{Verb: charge, Number: 2, Amount: 3, Shared: true, Joined: true}}},
	{name: "credit", before: paid, in: second(credit, 2)},
	{name: "up to", in: []request{spendRequest{Verb: upTo, Number: 2, Amount: 3, Least: 1}}},
	{name: "limits", in: []request{spendRequest{Verb: setLimits, Number: 2, Rule: lifetime, Amount: leastLimits[lifetime]}}},
	{name: "rules", before: paid, in: []request{spendRequest{Verb: setRules, Rules: Rules{Revision: 1, Single: 90, Lifetime: 90, Window: 90, Length: time.Hour, Extra: true}}}},
	{name: "freeze", in: second(freeze, 0)},
	{name: "unfreeze", before: []request{spendRequest{Verb: freeze, Number: 1}}, in: second(unfreeze, 0)},
	{name: "remaining", before: paid, in: []request{spendRequest{Verb: remaining}}},
	// A charge on an account that the ledger has just stored takes one round trip.
	{name: "charge, remembered", before: paid, near: true, in: second(charge, 3)},
	{name: "charge all", in: []request{
		spendRequest{Verb: charge, Number: 2, Amount: 3},
		spendRequest{Verb: charge, Number: 3, Account: 1, Amount: 3},
		spendRequest{Verb: charge, Number: 4, Account: 2, Amount: 3},
	}},
	asking("get", func(ctx context.Context, b *budgets) error {
		r, err := b.main.Get(ctx, b.b.id(1))
		if err == nil && (r.Spend == nil || r.Spend.Held.Minor != 3 || r.Spend.Total.Minor != 3) {
			return fmt.Errorf("the request is %+v, want one that holds 3", r)
		}
		return err
	}),
	asking("holds", func(ctx context.Context, b *budgets) error {
		n := 0
		for h, err := range b.main.Holds(ctx, "0") {
			if err != nil {
				return err
			}
			if n++; n > 1 || h.Held.Minor != 3 {
				return fmt.Errorf("hold %d is %+v, want one of 3", n, h)
			}
		}
		if n != 1 {
			return errors.New("there are no holds, want one of 3")
		}
		return nil
	}),
	asking("history", func(ctx context.Context, b *budgets) error {
		n := 0
		for e, err := range b.main.History(ctx, "0", nil) {
			if err != nil {
				return err
			}
			if n++; e.Kind != "authorize" || e.Held.Minor != 3 {
				return fmt.Errorf("the entry is %+v, want an authorization of 3", e)
			}
		}
		if n != 1 {
			return fmt.Errorf("%d entries, want 1", n)
		}
		return nil
	}),
	{name: "prune", special: pruneSpends},
}

// asking is the exchange of a question about an account that holds money.
func asking(name string, ask func(context.Context, *budgets) error) exchange {
	return exchange{name: name, special: &special{
		asks: true, spends: true,
		before: func(ctx context.Context, a *attempt) error { return a.record(ctx, authorized[0]) },
		call:   func(ctx context.Context, a *attempt) []error { return []error{ask(ctx, a.through.spends)} },
		look:   func(ctx context.Context, a *attempt) ([]int, error) { return nil, ask(ctx, a.past.spends) },
	}}
}

// TestCatchesOfCuts cuts the connections of stores with a defect.
func TestCatchesOfCuts(t *testing.T) {
	for _, c := range []struct {
		subject int
		call    string
		defect  defect
		mode    mode
		way     wire.Direction
		why     string
	}{
		{0, "try", mistold, closes, wire.ToClient, "the server has committed"},
		{0, "all", mistold, resets, wire.ToClient, "the server has committed"},
		{0, "update", mistold, halves, wire.ToClient, "the server has committed"},
		{1, "charge", mistold, closes, wire.ToClient, "the server has committed"},
		{0, "fillup", again, closes, wire.ToClient, "the fill was applied, and is sent again"},
		{0, "all", again, loses, wire.ToClient, "the fill was applied, and is sent again"},
		{0, "try", early, closes, wire.ToServer, "the server never saw the fill"},
		{2, "try", mistold, closes, wire.ToClient, "the server has applied it"},
		{2, "all", mistold, halves, wire.ToClient, "the server has applied it"},
		{2, "fillup", again, resets, wire.ToClient, "the fill was applied, and is sent again"},
		{2, "try", early, closes, wire.ToServer, "the server never saw the fill"},
	} {
		s := cutSubjects[c.subject]
		t.Run(fmt.Sprintf("%s, %s, %s", s.name, c.call, c.defect), func(t *testing.T) {
			parallelByDay(t)
			r := s.open(t, s.settings[0].name, c.defect)
			for _, e := range s.exchanges {
				if e.name == c.call {
					caughtBy(t, r, e, c.mode, c.way, c.why)
				}
			}
		})
	}
}

func caughtBy(t *testing.T, r *rig, e exchange, m mode, way wire.Direction, why string) {
	random, end := harness.Seed(1).Rand(), 30
	if way == wire.ToClient {
		lengths, err := e.measure(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		end = lengths[way]
	}
	for n := range 30 {
		err := e.run(t.Context(), r, &cut{mode: m, way: way, at: end - 1 - random.IntN(30)})
		switch {
		case errors.Is(err, errFalse):
			t.Logf("caught after %d cuts: %v", n+1, err)
			return
		case err != nil:
			t.Fatal(err)
		}
	}
	t.Errorf("not caught: %s", why)
}
