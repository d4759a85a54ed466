package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/spend/pgledger"
)

// window is that of the rolling rule.
const window = 30 * 24 * time.Hour

// budget has three rules: a rolling window, a calendar month and a ceiling for one spend. No
// amount of the measurements reaches a limit.
func budget(name string) spend.Budget {
	return spend.Budget{Name: name, Currency: "EUR", Rules: []spend.Rule{
		spend.Rolling("rolling", cents(1<<50), window),
		spend.Calendar("month", cents(1<<50), spend.Month, time.UTC),
		spend.PerTransaction("single", cents(1<<40)),
	}}
}

func cents(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }

func account(n int) string { return fmt.Sprint("account:", n) }

// newID returns an ID that begins with the time, like a UUID of version 7. Package spend advises
// such IDs for a large ledger.
func newID() string {
	return fmt.Sprintf("%012x%04x%016x", time.Now().UnixMilli(), rand.Uint32N(1<<16), rand.Uint64())
}

// spendSize is the number of accounts, of the entries in the window of each, and of those in the
// window of the account of the declines.
type spendSize struct{ accounts, entries, crowded int }

// spend measures decisions of package spend on every ledger. Filling the ledgers takes longer than
// measuring them.
func (b *bench) spend(ctx context.Context) error {
	size := spendSize{10_000, 1_000, 1_000_000}
	if b.Quick {
		size = spendSize{1_000, 100, 10_000}
	}
	if err := b.start(ctx, postgresServer); err != nil {
		return err
	}
	for _, f := range []func(context.Context, spendSize) error{b.spendPostgres, b.spendBolt} {
		if err := f(ctx, size); err != nil {
			return err
		}
	}
	return b.declines(ctx, size.crowded, 1, 64, 256)
}

// declining measures declines on accounts whose entries have few dates, as those that a job has
// made at midnight.
func (b *bench) declining(ctx context.Context) error {
	const entries = 20_000
	if err := b.start(ctx, postgresServer); err != nil {
		return err
	}
	for _, together := range []int{1, 1000, entries} {
		if err := b.declines(ctx, entries, together, 32); err != nil {
			return err
		}
	}
	return nil
}

// spending returns a contestant that makes decisions about accounts.
func (b *bench) spending(workload, subject, group, against string, callers, accounts, each int,
	decide func(ctx context.Context, account int) error,
) contestant {
	order := make(load.Order, 1<<16)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range order {
		order[i] = int32(r.IntN(accounts))
	}
	w := work{each: each, Options: load.Options{
		Callers: callers, Order: order,
		Decide: func(ctx context.Context, n int, _ bool) (bool, error) { return true, decide(ctx, n) },
	}}
	return contestant{b.new(workload, subject, group, against), w.trial}
}

// charge makes a charge, which must be approved or declined.
func (b *bench) charge(ctx context.Context, cards *spend.Budgets, account string, amount int64, approved bool) error {
	d, err := cards.Charge(ctx, spend.Request{ID: newID(), Account: account, Amount: cents(amount)})
	if err == nil && d.Approved != approved {
		err = fmt.Errorf("approved is %t, want %t", d.Approved, approved)
	}
	return err
}

// past is a clock that fills a ledger: it spreads entries over the window that ends now, and some
// have one date together.
type past struct {
	entries, together int
	began             time.Time
	n                 atomic.Int64 // number of the present entry
}

func newPast(entries, together int) *past {
	return &past{entries: entries, together: together, began: time.Now().Add(-window * 9 / 10)}
}

func (p *past) now() time.Time {
	date := p.n.Load() / int64(p.together) * int64(p.together)
	return p.began.Add(window * 9 / 10 / time.Duration(p.entries) * time.Duration(date))
}

// charges charges random amounts to an account of a ledger that reads the clock.
func (b *bench) charges(ctx context.Context, l ledger.Ledger, p *past, account string) error {
	const most = 200
	cards, err := spend.New(ctx, l, budget("cards"), nil)
	if err != nil {
		return err
	}
	return forEach(256, p.entries, func(int) error {
		defer p.n.Add(1)
		return b.charge(ctx, cards, account, 1+rand.Int64N(most), true)
	})
}

// inFile returns a ledger in a new file, whose account is filled without syncs.
func (b *bench) inFile(ctx context.Context, name, account string, p *past) (ledger.Ledger, func() error, error) {
	db, err := bbolt.Open(filepath.Join(b.dir, name), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		return nil, nil, err
	}
	open := func(o *boltledger.Options) (ledger.Ledger, func() error, error) {
		s, err := bolt.New(db, nil)
		if err != nil {
			return nil, nil, err
		}
		l, err := boltledger.New(s, o)
		return l, func() error { return errors.Join(l.Close(), s.Close()) }, err
	}
	filling, closeFilling, err := open(&boltledger.Options{Clock: p.now})
	if err == nil {
		err = errors.Join(b.charges(ctx, filling, p, account), closeFilling(), db.Sync())
	}
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	db.NoSync = false
	l, closeLedger, err := open(nil)
	return l, func() error { return errors.Join(closeLedger(), db.Close()) }, err
}

// inPostgres returns a ledger whose account is filled without syncs.
func (b *bench) inPostgres(ctx context.Context, account string, p *past) (ledger.Ledger, func() error, error) {
	open := func(commit string, clock func() time.Time) (ledger.Ledger, func() error, error) {
		pool, err := b.connect(ctx, 16, commit)
		if err != nil {
			return nil, nil, err
		}
		s, err := postgres.New(pool, &postgres.Options{Clock: clock})
		if err != nil {
			return nil, nil, err
		}
		l, err := pgledger.New(s, nil)
		return l, func() error { defer pool.Close(); return errors.Join(l.Close(), s.Close()) }, err
	}
	l, closeFilling, err := open("off", p.now)
	if err == nil {
		err = errors.Join(b.charges(ctx, l, p, account), closeFilling(), execute(ctx, b.pool, "VACUUM ANALYZE"))
	}
	if err != nil {
		return nil, nil, err
	}
	return open("on", nil)
}

// inMemory returns a ledger whose account is filled. It keeps its clock, which goes on from now.
func (b *bench) inMemory(ctx context.Context, account string, p *past) (ledger.Ledger, func() error, error) {
	clock := p.now
	l := memledger.New(&memledger.Options{Clock: func() time.Time { return clock() }})
	err := b.charges(ctx, l, p, account)
	clock = time.Now
	return l, l.Close, err
}

// authorizing returns a function that authorizes a small amount on an account.
func (b *bench) authorizing(ctx context.Context, l ledger.Ledger) (func(ctx context.Context, account int) error, error) {
	cards, err := spend.New(ctx, l, budget("cards"), nil)
	return func(ctx context.Context, n int) error {
		d, err := cards.Authorize(ctx, spend.Request{ID: newID(), Account: account(n), Amount: cents(1_00)})
		if err == nil && !d.Approved {
			err = fmt.Errorf("declined: %+v", d)
		}
		return err
	}, err
}

// copies are the statements that copy the entries of the first account to the others, and make the
// rows of the reference. The others do not count the copies, which leave no window while decisions
// are measured: a state is sealed together with its key, so it cannot be copied. The answers to the
// IDs of the entries are not copied. The bare tables are those of the ledger with their indexes.
var copies = []string{
	`INSERT INTO brim.buckets_entries (account, at, seq, used, currency, kind, spends, id)
		SELECT a.id, at, seq, used, currency, kind, spends, e.id
		FROM brim.buckets_accounts AS a
		     CROSS JOIN LATERAL (SELECT e.* FROM brim.buckets_entries AS e JOIN brim.buckets_accounts AS f ON f.id = e.account
		                         WHERE f.key = 'cards/account:0' ORDER BY at OFFSET 0) AS e
		WHERE a.key <> 'cards/account:0'`,
	`CREATE TABLE spends (key text COLLATE "C" PRIMARY KEY, level float8 NOT NULL, atime timestamptz NOT NULL) WITH (fillfactor = 85)`,
	`INSERT INTO spends SELECT 'account:' || i, 0, now() FROM generate_series(0, $1 - 1) AS i`,
	`CREATE TABLE bare_accounts (LIKE brim.buckets_accounts INCLUDING ALL EXCLUDING IDENTITY) WITH (fillfactor = 70)`,
	`CREATE TABLE bare_entries (LIKE brim.buckets_entries INCLUDING ALL)`,
	`CREATE TABLE bare_requests (LIKE brim.buckets_requests INCLUDING ALL)`,
	`INSERT INTO bare_accounts SELECT * FROM brim.buckets_accounts`,
	`INSERT INTO bare_entries SELECT * FROM brim.buckets_entries`,
	`VACUUM ANALYZE`,
}

// bareRows writes the rows of a whole batch of decisions without deciding anything: one account
// updated, one entry and one answer inserted for each. It locks the accounts in the
// order of $1, as the ledger does, so that two of them do not deadlock.
const bareRows = `WITH saved AS (
	UPDATE bare_accounts AS a SET state = $5
	FROM (SELECT unnest($1::bigint[]) AS id) AS u WHERE a.id = ANY (ARRAY[u.id])
), appended AS (
	INSERT INTO bare_entries (account, at, seq, held, kind, spends, currency, id)
	SELECT u.account, clock_timestamp(), u.seq, 100, 3, 1, 'EUR', decode(u.id, 'hex')
	FROM (SELECT unnest($2::bigint[]) AS account, unnest($3::text[]) AS id, unnest($4::bigint[]) AS seq) AS u
), answered AS (
	INSERT INTO bare_requests (id, at, account, content, answer, spend)
	SELECT decode(u.id, 'hex'), clock_timestamp(), u.account, $6, $5, $7
	FROM (SELECT unnest($2::bigint[]) AS account, unnest($3::text[]) AS id) AS u
) SELECT 1`

// spendPostgres measures authorizations beside one bare UPDATE per decision, and beside the rows of
// such decisions alone, which are the server's limit.
func (b *bench) spendPostgres(ctx context.Context, size spendSize) (err error) {
	b.say("spend: filling %d accounts in PostgreSQL", size.accounts)
	l, closeLedger, err := b.inPostgres(ctx, account(0), newPast(size.entries, 1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLedger()) }()
	cards, err := spend.New(ctx, l, budget("cards"), nil)
	if err == nil {
		err = forEach(256, size.accounts-1, func(i int) error { return b.charge(ctx, cards, account(1+i), 1, true) })
	}
	if err != nil {
		return err
	}
	for _, sql := range copies {
		if err := execute(ctx, b.pool, strings.ReplaceAll(sql, "$1", strconv.Itoa(size.accounts))); err != nil {
			return err
		}
	}
	authorize, err := b.authorizing(ctx, l)
	if err != nil {
		return err
	}
	pool, err := b.connect(ctx, 16, "on")
	if err != nil {
		return err
	}
	defer pool.Close()
	update := func(ctx context.Context, n int) error {
		_, err := pool.Exec(ctx, "UPDATE spends SET level = level + 1, atime = clock_timestamp() WHERE key = $1", account(n))
		return err
	}
	for _, accounts := range []int{size.accounts, 1} {
		for _, callers := range []int{1, 16, 64} {
			workload := fmt.Sprintf("PostgreSQL, %d accounts, %d callers", accounts, callers)
			b.say("spend: %s", workload)
			inFlight := 1 // transactions of the ledger, which share the callers
			if accounts > 1 && callers >= 16 {
				inFlight = 2
			}
			if err := b.contest(ctx, []contestant{
				b.spending(workload, "authorizations", ours, updateName, callers, accounts, 1, authorize),
				b.spending(workload, updateName, reference, "", callers, accounts, 1, update),
				b.spending(workload, "rows alone", reference, updateName, inFlight, accounts, callers/inFlight,
					b.storing(pool, callers/inFlight, accounts)),
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// storing returns a function that writes the rows of n decisions.
func (b *bench) storing(pool *pgxpool.Pool, n, accounts int) func(ctx context.Context, _ int) error {
	state, content, spend := make([]byte, 60), make([]byte, 16), make([]byte, 40)
	return func(ctx context.Context, _ int) error {
		each, ids, seqs := make([]int64, n), make([]string, n), make([]int64, n)
		for i := range n {
			each[i], ids[i], seqs[i] = 1+rand.Int64N(int64(accounts)), newID(), rand.Int64()
		}
		slices.Sort(each)
		slices.Sort(ids)
		_, err := pool.Exec(ctx, bareRows, slices.Compact(slices.Clone(each)), each, ids, seqs, state, content, spend)
		return err
	}
}

// spendBolt measures authorizations beside one db.Batch per decision in a file of its own.
func (b *bench) spendBolt(ctx context.Context, size spendSize) (err error) {
	const callers = 256
	l, closeLedger, err := b.inFile(ctx, "accounts.db", account(0), newPast(1, 1))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLedger()) }()
	authorize, err := b.authorizing(ctx, l)
	if err != nil {
		return err
	}
	plain, err := bbolt.Open(filepath.Join(b.dir, "plain.db"), 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plain.Close()) }()
	batch := func(_ context.Context, n int) error {
		return plain.Batch(func(tx *bbolt.Tx) error {
			rows, err := tx.CreateBucketIfNotExists([]byte("rows"))
			if err != nil {
				return err
			}
			key := binary.BigEndian.AppendUint64(nil, uint64(n))
			return rows.Put(key, binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano())))
		})
	}
	workload := fmt.Sprintf("bbolt file, %d accounts, %d callers", size.accounts, callers)
	b.say("spend: %s", workload)
	return b.contest(ctx, []contestant{
		b.spending(workload, "authorizations", ours, "db.Batch", callers, size.accounts, 1, authorize),
		b.spending(workload, "db.Batch", reference, "", callers, size.accounts, 1, batch),
	})
}

// declines measures approvals and declines on one account with many entries, on every ledger. Some
// of the entries have one date together.
func (b *bench) declines(ctx context.Context, entries, together int, callers ...int) error {
	crowded := fmt.Sprint("crowded-", together)
	for _, kind := range []struct {
		name string
		open func(p *past) (ledger.Ledger, func() error, error)
	}{
		{"memledger", func(p *past) (ledger.Ledger, func() error, error) { return b.inMemory(ctx, crowded, p) }},
		{"boltledger", func(p *past) (ledger.Ledger, func() error, error) { return b.inFile(ctx, crowded+".db", crowded, p) }},
		{"pgledger", func(p *past) (ledger.Ledger, func() error, error) { return b.inPostgres(ctx, crowded, p) }},
	} {
		if b.leaves(kind.name) {
			continue
		}
		name := fmt.Sprintf("%s, an account of %d entries, %d of each date", kind.name, entries, together)
		b.say("spend: %s: filling it", name)
		l, closeLedger, err := kind.open(newPast(entries, together))
		if err != nil {
			return err
		}
		if err := errors.Join(b.decline(ctx, name, crowded, l, callers), closeLedger()); err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return nil
}

// room is the amount that is left in the window of the account, in cents.
const room = 1 << 40

// decline compares charges of a cent with charges that need some of the entries in the window to
// leave it. These lack a cent, or all of the window, or any order of magnitude
// in between. A decline costs at most as much as two approvals.
func (b *bench) decline(ctx context.Context, name, crowded string, l ledger.Ledger, callers []int) error {
	wide, err := spend.New(ctx, l, budget("cards"), nil)
	if err != nil {
		return err
	}
	usage, err := wide.Remaining(ctx, crowded)
	if err != nil {
		return err
	}
	used := usage[0].Used.Minor
	narrow := budget("cards")
	narrow.Revision = time.Now().UnixMicro() // above those of ledgers that have been measured
	narrow.Rules[0] = spend.Rolling("rolling", cents(used+room), window)
	cards, err := spend.New(ctx, l, narrow, nil)
	if err != nil {
		return err
	}
	for _, callers := range callers {
		workload := fmt.Sprintf("%s, %d callers", name, callers)
		b.say("spend: %s", workload)
		all := []contestant{
			b.spending(workload, "approvals", ours, "", callers, 1, 1, func(ctx context.Context, _ int) error {
				return b.charge(ctx, cards, crowded, 1, true)
			}),
			b.spending(workload, "declines", ours, "approvals", callers, 1, 1, func(ctx context.Context, _ int) error {
				return b.charge(ctx, cards, crowded, room+int64(math.Pow(float64(used), rand.Float64())), false)
			}),
		}
		if err := b.contest(ctx, all); err != nil {
			return err
		}
		if ratio, ok := b.ratio(all[1].row, rateFigure); ok && ratio < 0.5 && !b.Quick {
			b.Broken = append(b.Broken, fmt.Sprintf("%s: %.2f declines for each approval; want 0.5 at least", workload, ratio))
		}
	}
	return nil
}
