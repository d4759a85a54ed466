package lin

import (
	"math/rand/v2"

	"github.com/brimgo/brim/store"
)

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

// serverPlan is a plan for stores on a server whose clock decides.
type serverPlan struct {
	plan
	limits [keys]store.Limit
	model  model
	stores []store.Store // of the clients
}

// planServer returns a random plan. In a third of the histories of bare stores nothing is
// disturbed, and buckets leak fast: the At of each answer fixes the decision. In the others,
// buckets leak slowly or not at all, because nobody knows the time of a call of unknown outcome.
func planServer(r *rand.Rand, below []store.Store, join joining) (p serverPlan, err error) {
	room := true
	if p.stores = below; join != nil {
		if p.stores, room, err = join(r, below); err != nil {
			return p, err
		}
	}
	s := style{asks: true, single: r.IntN(2) == 0, fills: !room, impatient: 4, strikes: cuts}
	rates := []float64{0, slow}
	if join == nil && r.IntN(3) == 0 {
		rates, s.impatient, s.strikes = []float64{0, slow, 40, 1000}, 0, 0
	}
	p.limits = limitsOf(r, rates...)
	m := &storeModel{limits: p.limits, rounding: rounding}
	if p.model = m; join != nil {
		p.model = refusalsModel{m}
	}
	p.plan = planStore(r, s)
	return p, nil
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
