package lin

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// fault disturbs the server of a world, its connections or its clients, and mends the damage.
type fault func(w *remote, b *blow) error

// remote is a store or a ledger on a server.
type remote struct {
	callee
	m       model
	clk     *clock        // nil if the server's clock decides
	below   []store.Store // as of two processes
	after   store.Store   // whose connections nothing breaks; for the end
	prefix  string        // of keys, if the stores have none
	ends    []request
	ledgers *ledgers // of a world with a ledger
	faults  []fault
	strikes int  // at most
	sure    bool // there is at least one strike
	// quiet waits until nothing is under way on the server for the stores, which are closed.
	quiet func() error
	free  func() error // ends the connections

	place  *place    // in PostgreSQL
	line   *line     // to it, or nil
	in     *keyspace // in Redis
	own    *dialed   // connections to it
	root   string    // of the names of its keys
	single bool      // calls for two buckets do not work
	tap    *tap      // before the server, or nil
}

// ledgers are the ledgers of a world, over its stores.
type ledgers struct {
	budget *budget
	open   []ledger.Ledger
	after  func() (ledger.Ledger, *budgets, error)
}

func (w *remote) model() model { return w.m }
func (w *remote) time() *clock { return w.clk }
func (w *remote) strike(b *blow) (request, error) {
	return nil, w.faults[b.r.IntN(len(w.faults))](w, b)
}
func (w *remote) finals() []request { return w.ends }

// rest closes everything that the clients have used, and waits until nothing is under way. Until
// then, the server can still carry out a call whose caller has gone.
func (w *remote) rest() (err error) {
	if w.ledgers != nil {
		for _, l := range w.ledgers.open {
			err = errors.Join(err, l.Close())
		}
	}
	for _, s := range w.below {
		err = errors.Join(err, s.Close())
	}
	if err = errors.Join(err, w.quiet()); err != nil {
		return err
	}
	w.stores = []store.Store{w.after}
	if w.ledgers != nil {
		var l ledger.Ledger
		l, w.spends, err = w.ledgers.after()
		w.ledgers.open = []ledger.Ledger{l}
	}
	return err
}

func (w *remote) close() (err error) {
	if w.ledgers != nil {
		for _, l := range w.ledgers.open {
			err = errors.Join(err, l.Close())
		}
	}
	return errors.Join(err, w.after.Close(), w.free())
}

// slow is a leak rate so low that the time of a call does not matter to the model. A microsecond's
// leak is not lost in rounding, and an hour's is less than the rounding that the model allows.
const slow = 1.0 / (1 << 27)

// rounding is the difference in units that the model allows where the server's clock decides.
const rounding = 1e-4

// cuts is the largest number of cuts in a history.
const cuts = 3

// joining makes the stores of the clients from those of two processes. room tells whether calls may
// make room. A nil joining has the clients call the two stores.
type joining func(r *rand.Rand, below []store.Store) (all []store.Store, room bool, err error)

// plan returns a random plan for stores. If the history has their clock, buckets leak and answers
// are exact under faults, too. With the server's clock, buckets leak slowly or not at all, because
// nobody knows the time of a call of unknown outcome. In a third of such histories, where that is
// allowed, there are no faults and buckets leak fast: the At of each answer fixes the decision.
func (w *remote) plan(r *rand.Rand, join joining, s style) (p plan, err error) {
	w.ends = allKeys()
	s.asks, s.impatient, s.strikes, s.sure = true, 4, w.strikes, w.sure
	s.single = w.single || r.IntN(2) == 0
	if w.clk != nil {
		w.bucket, w.stores = bucketsOf(limitsOf(r, 0, 1, 2), w.prefix), w.below
		w.m = &storeModel{bucket: w.bucket}
		s.clock, s.back = true, true
		return planStore(r, s), nil
	}
	room := true
	if w.stores = w.below; join != nil {
		if w.stores, room, err = join(r, w.below); err != nil {
			return p, err
		}
	}
	s.fills = !room
	rates := []float64{0, slow}
	if join == nil && !w.sure && r.IntN(3) == 0 {
		rates, s.impatient, s.strikes = []float64{0, slow, 40, 1000}, 0, 0
	}
	w.bucket = bucketsOf(limitsOf(r, rates...), w.prefix)
	m := &storeModel{bucket: w.bucket, rounding: rounding, began: time.Now()}
	if w.m = m; join != nil {
		w.m = refusalsModel{m}
	}
	return planStore(r, s), nil
}

// refusalsOnServer wraps the stores. See refusalsInMemory.
func refusalsOnServer(r *rand.Rand, below []store.Store) (all []store.Store, room bool, err error) {
	if room = r.IntN(2) == 0; room {
		below = below[:1]
	}
	for _, s := range below {
		more, err := refusalsOver(s, 1, nil)
		if err != nil {
			return nil, false, err
		}
		all = append(all, more...)
	}
	return all, room, nil
}

// eventually calls try every few milliseconds until it reports true. The error names the goal, and
// is that of the last try, if there is no success in a time that a busy machine may need.
func eventually(goal string, try func() (bool, error)) error {
	for end := time.Now().Add(recovery); ; time.Sleep(2 * time.Millisecond) {
		done, err := try()
		if done && err == nil {
			return nil
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("lin: %s, not after %v", goal, recovery), err)
		}
	}
}
