package main

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

const (
	perRow   = 4 // callers of each locked row
	deadline = time.Second
)

// rows are rows of PostgreSQL that decisions change, while a session that is a stranger to the
// store holds some of them locked.
type rows struct {
	free   int   // that no stranger locks
	locked []int // how many further rows a stranger locks
	lock   string
	// make makes the row of a key.
	make func(ctx context.Context, key string) error
	// decide makes a decision that changes the row of a key. The callers of a locked row have
	// different numbers, and may make different decisions.
	decide func(ctx context.Context, key string, caller int) (accepted bool, err error)
}

func free(n int) string { return fmt.Sprintf("free%06d", n) }
func held(n int) string { return fmt.Sprintf("held%06d", n) }

// heldBuckets measures fills of buckets.
func (b *bench) heldBuckets(ctx context.Context) error {
	return b.held(ctx, func(s *postgres.Store) (*rows, error) {
		fill := func(ctx context.Context, key string, _ int) (bool, error) {
			st, err := s.Fill(ctx, store.Op{Bucket: roomyLimit.For(key), Amount: 1, Mode: store.IfFits})
			return st.Accepted, err
		}
		return &rows{
			free: 100_000, locked: []int{0, 1, 10, 100}, decide: fill,
			lock: "SELECT FROM brim.buckets WHERE key >= $1 AND key < $2 ORDER BY key FOR UPDATE",
			make: func(ctx context.Context, key string) error {
				_, err := fill(ctx, key, 0)
				return err
			},
		}, nil
	})
}

// heldAccounts measures decisions of package spend. Of the four callers of a locked account, two
// charge it, one charges it together with an account that others charge as well, and one refunds an
// earlier spend of it.
func (b *bench) heldAccounts(ctx context.Context) error {
	return b.held(ctx, func(s *postgres.Store) (*rows, error) {
		const teams = 100
		l, err := pgledger.New(s, nil)
		if err != nil {
			return nil, err
		}
		cards, err := spend.New(l, budget("cards"), &spend.Options{Budgets: []spend.Budget{budget("teams")}})
		earlier := func(key string, n int) string { return fmt.Sprintf("earlier %s %d", key, n) }
		earliers := func(key string) int { // a caller of a locked row refunds another spend each time
			if strings.HasPrefix(key, "held") {
				return 32
			}
			return 1
		}
		return &rows{
			free: 10_000, locked: []int{0, 1, 2, 10},
			lock: "SELECT FROM brim.buckets_accounts WHERE key >= 'cards/' || $1 AND key < 'cards/' || $2 ORDER BY key FOR UPDATE",
			make: func(ctx context.Context, key string) error {
				for n := range earliers(key) {
					if _, err := cards.Charge(ctx, spend.Request{ID: earlier(key, n), Account: key, Amount: cents(1 << 30)}); err != nil {
						return err
					}
				}
				return nil
			},
			decide: func(ctx context.Context, key string, caller int) (bool, error) {
				r := spend.Request{ID: randomID(), Account: key, Amount: cents(1)}
				switch caller {
				case 0:
					d, err := cards.Refund(ctx, spend.RefundRequest{ID: r.ID, SpendID: earlier(key, rand.IntN(earliers(key))), Amount: r.Amount})
					return d.Approved, err
				case 1:
					r.Also = []spend.Account{{Budget: "teams", Name: fmt.Sprint(crc32.ChecksumIEEE([]byte(key)) % teams)}}
				}
				d, err := cards.Charge(ctx, r)
				return d.Approved, err
			},
		}, err
	})
}

// held lets 64 callers change rows, undisturbed and by turns while a stranger holds other rows
// locked. Each locked row has four callers with a deadline of a second, which come back when they
// are answered. The workload with no locked row shows how much slower the server itself becomes
// while a transaction is open: until it ends, no dead version of any row can be removed.
func (b *bench) held(ctx context.Context, over func(*postgres.Store) (*rows, error)) (err error) {
	if err := b.start(ctx, postgresServer); err != nil {
		return err
	}
	pool, err := b.connect(ctx, 8, "on")
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := postgres.New(pool, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r, err := over(s)
	if err != nil {
		return err
	}
	most := r.locked[len(r.locked)-1]
	b.say("%s: making %d rows", b.name, r.free+most)
	if err := forEach(64, r.free+most, func(n int) error {
		if n < r.free {
			return r.make(ctx, free(n))
		}
		return r.make(ctx, held(n-r.free))
	}); err != nil {
		return err
	}
	order, err := load.Draw("uniform", r.free, 1, 0, 1)
	if err != nil {
		return err
	}
	others := work{strict: true, Options: load.Options{
		Callers: 64, Order: order,
		Decide: func(ctx context.Context, key int, _ bool) (bool, error) {
			return r.decide(ctx, free(key), rand.IntN(16))
		},
	}}
	for _, n := range r.locked {
		workload := fmt.Sprintf("callers of other rows, %d rows locked", n)
		b.say("%s: %s", b.name, workload)
		if err := b.contest(ctx, []contestant{
			{b.new(workload, "undisturbed", ours, ""), others.turn},
			{b.new(workload, "disturbed", ours, "undisturbed"), func(ctx context.Context, d time.Duration, to *row) error {
				return b.disturbed(ctx, d, to, r, n, others)
			}},
		}); err != nil {
			return err
		}
	}
	return nil
}

// disturbed measures the others while a transaction is open that has locked n rows, from its second
// second on.
func (b *bench) disturbed(ctx context.Context, length time.Duration, to *row, r *rows, n int, others work) error {
	tx, err := b.pool.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "SELECT pg_current_xact_id()"); err != nil { // the transaction may lock no row
		return err
	}
	if _, err := tx.Exec(ctx, r.lock, held(0), held(n)); err != nil {
		return err
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	var released, late, unknown atomic.Int64 // released and late are in nanoseconds
	start := time.Now()
	first := make([]atomic.Int64, n)
	callers := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		if n == 0 {
			callers <- nil
			return
		}
		callers <- forEach(n*perRow, n*perRow, func(c int) error {
			for waiting.Err() == nil {
				call, cancel := context.WithTimeout(ctx, deadline)
				began := time.Now()
				accepted, err := r.decide(call, held(c/perRow), c%perRow)
				cancel()
				if overdue := int64(time.Since(began) - deadline); overdue > late.Load() {
					late.Store(overdue)
				}
				switch {
				case err == nil && accepted && released.Load() == 0:
					return errors.New("a locked row was filled")
				case err == nil:
					first[c/perRow].CompareAndSwap(0, int64(time.Since(start)))
				case errors.Is(err, store.ErrUnknownOutcome):
					unknown.Add(1)
				case !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded):
					return err
				}
			}
			return nil
		})
	})
	warm := others
	warm.For = time.Second
	_, err = load.Run(ctx, warm.Options)
	if err == nil {
		err = others.turn(ctx, length, to)
	}
	released.Store(int64(time.Since(start)))
	if err == nil {
		err = tx.Rollback(ctx)
	}
	if n > 0 {
		time.Sleep(2 * deadline)
	}
	stop()
	wg.Wait()
	if err := errors.Join(err, <-callers); err != nil || n == 0 {
		return err
	}
	last := int64(0)
	for i := range first {
		at := first[i].Load()
		if at == 0 {
			return fmt.Errorf("row %d was not served within %v", i, 2*deadline)
		}
		last = max(last, at)
	}
	to.add("all rows served after the lock, ms", max(0, float64(last-released.Load()))/1e6)
	to.add("latest answer after its deadline, ms", float64(late.Load())/1e6)
	to.add("unknown outcomes", float64(unknown.Load()))
	return nil
}
