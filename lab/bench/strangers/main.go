// Command strangers measures how much a session that holds rows locked slows the callers of other
// buckets down.
//
//	go run ./strangers
//
// The command starts a PostgreSQL server. It lets 64 callers fill 100,000 buckets, undisturbed
// and while another session holds 1, 10 and 100 other buckets locked, each of which has four
// callers with a deadline of a second that come back when they are answered. It prints the rates,
// the 99th percentiles, the time from the end of the lock until every bucket has been served, how
// long after its deadline the latest caller of a locked bucket got its answer, and how many of these
// callers did not learn that nothing was applied. The last column shows a machine that stands still.
//
// The undisturbed rate is measured before and after each lock, because the machine may change its
// speed. The rows with 0 locked rows tell how much slower the server itself becomes while a
// transaction is open that locks nothing: until it ends, no dead version of any row can be removed.
//
//	go run ./strangers -spend
//
// With -spend, the command measures decisions of package spend over 10,000 accounts, while 1, 2 and
// 10 accounts are locked. Of the four callers of a locked account, two charge it, one charges it
// together with an account that others charge as well, and one refunds an earlier spend of it.
//
//	git worktree add --detach /tmp/before COMMIT && go run ./strangers -before /tmp/before
//
// With -before, the command measures the cost where nobody disturbs: three processes fill one
// bucket, by turns with the store of an earlier commit and with the present one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/duration"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

const (
	callers  = 64
	perRow   = 4 // callers of each locked row
	deadline = time.Second
)

// subject is a kind of decision.
type subject struct {
	rows   int    // that no stranger locks
	locked []int  // how many further rows a stranger locks, by turns
	lock   string // locks the rows of the keys from $1 to below $2
	// prepare makes the row of a key.
	prepare func(ctx context.Context, key string) error
	// decide makes a decision that changes the row of a key. Callers with different numbers may make
	// different decisions.
	decide func(ctx context.Context, key string, caller int) (accepted bool, err error)
}

// kinds is the number of callers' numbers for which decisions may differ. The callers of a locked
// row have the highest.
const kinds = 16

// buckets returns the decisions on buckets.
func buckets(s *postgres.Store) subject {
	limit := store.Limit{Capacity: 1 << 40}
	fill := func(ctx context.Context, key string, _ int) (bool, error) {
		st, err := s.Fill(ctx, store.Op{Bucket: limit.For(key), Amount: 1, Mode: store.IfFits})
		return st.Accepted, err
	}
	return subject{
		rows: 100_000, locked: []int{1, 10, 100}, decide: fill,
		lock: "SELECT FROM brim.buckets WHERE key >= $1 AND key < $2 ORDER BY key FOR UPDATE",
		prepare: func(ctx context.Context, key string) error {
			_, err := fill(ctx, key, 0)
			return err
		},
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "strangers:", err)
		}
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("strangers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	length := duration.Value(20 * time.Second)
	flags.Var(&length, "for", "how long rows are locked, from 2s to 5m")
	spend := flags.Bool("spend", false, "measure decisions of package spend instead of buckets")
	before := flags.String("before", "", "the checkout of an earlier commit, to compare three processes on one bucket")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("%q is not an option; see -help", flags.Arg(0))
	case *spend && *before != "":
		return errors.New("-before compares buckets; leave -spend out")
	case length.Std() < 2*time.Second || length.Std() > 5*time.Minute:
		return fmt.Errorf("-for is %v; it must be from 2s to 5m", length.Std())
	}
	server, err := pgtest.Launch()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	admin, err := pgxpool.New(ctx, server.URL())
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := migrations.Up(ctx, admin, nil); err != nil {
		return err
	}
	if *before != "" {
		return hot(ctx, server.URL(), *before, stdout)
	}
	config := admin.Config().Copy()
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	s, err := postgres.New(pool, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	b := &bench{subject: buckets(s), admin: admin}
	if *spend {
		l, err := pgledger.New(s, nil)
		if err != nil {
			return err
		}
		if b.subject, err = spends(l); err != nil {
			return err
		}
	}
	if err := b.prefill(ctx); err != nil {
		return err
	}
	if _, err := b.others(ctx, 5*time.Second); err != nil { // to warm up
		return err
	}
	t := table.New(table.Right("rows locked"), table.Right("decisions/s of others"), table.Right("of undisturbed"),
		table.Right("p99 from the second second"), table.Right("of undisturbed"), table.Right("served after the lock"),
		table.Right("latest answer after its deadline"), table.Right("unknown outcomes"))
	earlier, err := b.others(ctx, length.Std()/2)
	for i := range 2 * len(b.locked) {
		n := 0
		if i%2 == 1 {
			n = b.locked[i/2]
		}
		if err != nil {
			return err
		}
		d, err := b.disturbed(ctx, length.Std(), n)
		if err != nil {
			return err
		}
		after, err := b.others(ctx, length.Std()/2)
		if err != nil {
			return err
		}
		calm := speed{rate: (earlier.rate + after.rate) / 2, p99: (earlier.p99 + after.p99) / 2}
		earlier = after
		served, late, unknown := "", "", ""
		if n > 0 {
			served, late, unknown = d.served.String(), d.late.String(), fmt.Sprint(d.unknown)
		}
		t.Add(fmt.Sprint(n), fmt.Sprintf("%.0f", d.others.rate), fmt.Sprintf("%.2f", d.others.rate/calm.rate),
			d.others.p99.String(), fmt.Sprintf("%.1f", float64(d.others.p99)/float64(calm.p99)), served, late, unknown)
	}
	_, err = fmt.Fprint(stdout, t.Markdown())
	return err
}

type bench struct {
	subject
	admin *pgxpool.Pool
}

func free(n int) string { return fmt.Sprintf("free%06d", n) }
func held(n int) string { return fmt.Sprintf("held%06d", n) }

// prefill makes all rows.
func (b *bench) prefill(ctx context.Context) error {
	var errs [callers]error
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := c; n < b.rows+slices.Max(b.locked) && errs[c] == nil; n += callers {
				key := free(n)
				if n >= b.rows {
					key = held(n - b.rows)
				}
				errs[c] = b.prepare(ctx, key)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs[:]...)
}

type speed struct {
	rate float64
	p99  time.Duration
}

// others fills the other buckets for a time.
func (b *bench) others(ctx context.Context, length time.Duration) (speed, error) {
	var took [callers][]time.Duration
	var errs [callers]error
	var done atomic.Int64
	start := time.Now()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), 1))
			for {
				began := time.Now()
				since := began.Sub(start)
				if since >= length {
					return
				}
				if _, errs[c] = b.decide(ctx, free(r.IntN(b.rows)), r.IntN(kinds)); errs[c] != nil {
					return
				}
				done.Add(1)
				if since >= time.Second {
					took[c] = append(took[c], time.Since(began))
				}
			}
		})
	}
	wg.Wait()
	all := slices.Concat(took[:]...)
	slices.Sort(all)
	if len(all) == 0 {
		return speed{}, errors.Join(append(errs[:], errors.New("no call took place"))...)
	}
	return speed{
		rate: float64(done.Load()) / time.Since(start).Seconds(),
		p99:  all[len(all)*99/100].Round(10 * time.Microsecond),
	}, errors.Join(errs[:]...)
}

// disturbance is the effect of locked rows.
type disturbance struct {
	others speed
	served time.Duration // from the end of the lock until the last of the locked rows was served
	late   time.Duration // from its deadline until the latest of the callers of locked rows had its answer
	// unknown is the number of these callers whose outcome is unknown.
	unknown int64
}

// disturbed measures the others while a transaction is open that has locked n rows.
func (b *bench) disturbed(ctx context.Context, length time.Duration, n int) (d disturbance, err error) {
	tx, err := b.admin.BeginTx(ctx, pgx.TxOptions{})
	if err != nil {
		return d, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, "SELECT pg_current_xact_id()"); err != nil { // the transaction may lock no row
		return d, err
	}
	if _, err := tx.Exec(ctx, b.lock, held(0), held(n)); err != nil {
		return d, err
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	var released, late, unknown atomic.Int64 // released and late are in nanoseconds
	start := time.Now()
	first := make([]atomic.Int64, n)
	wrong := make(chan error, 1)
	var wg sync.WaitGroup
	for c := range n * perRow {
		wg.Go(func() {
			for waiting.Err() == nil {
				call, cancel := context.WithTimeout(ctx, deadline)
				began := time.Now()
				accepted, err := b.decide(call, held(c/perRow), kinds-1-c%perRow)
				cancel()
				if overdue := int64(time.Since(began) - deadline); overdue > late.Load() {
					late.Store(overdue)
				}
				switch {
				case err == nil && accepted && released.Load() == 0:
					err = errors.New("a locked row was filled")
				case err == nil:
					first[c/perRow].CompareAndSwap(0, int64(time.Since(start)))
					continue
				case errors.Is(err, store.ErrUnknownOutcome):
					unknown.Add(1)
					continue
				case errors.Is(err, store.ErrUnavailable):
					continue
				}
				select {
				case wrong <- err:
				default:
				}
				return
			}
		})
	}
	d.others, err = b.others(ctx, length)
	released.Store(int64(time.Since(start)))
	if err == nil {
		err = tx.Rollback(ctx)
	}
	if n > 0 {
		time.Sleep(2 * deadline)
	}
	stop()
	wg.Wait()
	select {
	case w := <-wrong:
		err = errors.Join(err, w)
	default:
	}
	last := int64(0)
	for i := range first {
		if at := first[i].Load(); at == 0 {
			err = errors.Join(err, fmt.Errorf("row %d was not served within %v", i, 2*deadline))
		} else {
			last = max(last, at)
		}
	}
	d.served = max(0, time.Duration(last-released.Load())).Round(time.Millisecond)
	d.late = time.Duration(late.Load()).Round(time.Millisecond)
	d.unknown = unknown.Load()
	return d, err
}
