package simulate

import (
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim/store"
)

// decision is an arrival with the answer of the gate that decided it last.
type decision struct {
	arrival Arrival
	client  int   // the number of the key, in the order of first arrivals
	at      int64 // the time of the decision, never before an earlier one of the same key
	state   store.State
	wait    time.Duration // from the decision to the turn of an accepted arrival in a queue
}

// gate decides arrivals by one limit.
type gate interface {
	// decide decides a batch in order and sets the states.
	decide(ctx context.Context, batch []decision) error
	// units returns a level of a state in units of the limit.
	units(level float64) float64
	// numbers returns the largest number of numbers that the algorithm kept for a key.
	numbers() int
}

// buckets is a gate of records in memory.
type buckets struct {
	unit
	records []record // by client
}

// record is the part of a [store.Record] that differs between the buckets of a gate.
type record struct {
	level float64
	at    int64
}

func (g *buckets) decide(_ context.Context, batch []decision) error {
	op := store.Op{Bucket: g.scaled.For("k")}
	for i := range batch {
		d := &batch[i]
		if d.client == len(g.records) {
			g.records = append(g.records, record{at: d.at})
		}
		b := &g.records[d.client]
		r := store.Record{Level: b.level, Time: b.at, Limit: g.scaled}
		op.Amount = g.amount(d.arrival.Cost)
		d.state = store.State{}
		effect, err := r.FillTo(&d.state, &op, d.at, MaxSkew)
		if err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
		if effect&store.Write != 0 {
			b.level, b.at = r.Level, r.Time
		}
	}
	return nil
}

func (g *buckets) numbers() int { return 2 } // the level and its time

// stored is a gate of the buckets in a store.
type stored struct {
	unit
	*Store
}

func (g *stored) decide(ctx context.Context, batch []decision) error {
	err := g.commit(ctx, func(s store.Store) error {
		for i := range batch {
			d := &batch[i]
			g.Clock.micros.Store(d.at)
			st, err := s.Fill(ctx, store.Op{
				Bucket: g.scaled.For(g.Prefix + d.arrival.Key),
				Amount: g.amount(d.arrival.Cost),
			})
			if err != nil {
				return err
			}
			d.state = st
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("simulate: %w", err)
	}
	return nil
}

func (g *stored) numbers() int { return 2 } // the level and its time

// Store is the store in which a run keeps its buckets. Store and Clock are required.
type Store struct {
	store.Store
	// Update, if not nil, runs its function on a view of the store whose decisions are committed
	// together. It may run the function more than once.
	Update func(ctx context.Context, decide func(store.Store) error) error
	// Clock must be the clock of Store, whose MaxSkew must be [MaxSkew].
	Clock  *Clock
	Prefix string // of the keys in the store
	Keep   bool   // the buckets stay in the store, in units of the limit
}

// commit calls decide with the store, in one commit if the store can do so.
func (s *Store) commit(ctx context.Context, decide func(store.Store) error) error {
	if s.Update == nil {
		return decide(s.Store)
	}
	return s.Update(ctx, decide)
}

// keep rewrites the buckets of the clients in units of the limit.
func (g *stored) keep(ctx context.Context, clients []client) error {
	if g.factor == 1 {
		return nil
	}
	for len(clients) > 0 {
		n := min(chunk, len(clients))
		err := g.commit(ctx, func(s store.Store) error {
			for i := range clients[:n] {
				if err := g.keepOne(ctx, s, &clients[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
		clients = clients[n:]
	}
	return nil
}

func (g *stored) keepOne(ctx context.Context, s store.Store, c *client) error {
	g.Clock.micros.Store(c.last)
	key := g.Prefix + c.key
	states, err := s.Read(ctx, g.scaled.For(key))
	if err != nil {
		return err
	}
	if err := s.Delete(ctx, key); err != nil || states[0].Level == 0 {
		return err // an empty bucket is the same as an absent one
	}
	_, err = s.Fill(ctx, store.Op{
		Bucket: g.limit.For(key), Amount: g.units(states[0].Level), Mode: store.Always,
	})
	return err
}

// Limit is a limit whose leak rate is exact, and the algorithm that decides by it.
type Limit struct {
	store.Limit
	Algorithm Algorithm
	// Over, if not 0, is the exact time in which a full bucket drains. The leak rate is then a
	// rounded number.
	Over time.Duration
	Use  Use // of a LeakyBucket
}

// Over returns the limit of a bucket that drains in period once it is full.
func Over(capacity float64, period time.Duration) Limit {
	return Limit{Limit: store.Over(capacity, period), Over: period}
}
