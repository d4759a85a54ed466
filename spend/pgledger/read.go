package pgledger

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/internal/book"
	"github.com/brimgo/brim/spend/ledger"
)

// rows are the rows that the jobs of one transaction read: the [book.Reader] of its batch.
type rows struct {
	l   *Ledger
	q   pgrun.Queryer
	own bool // the ledger begins and ends the transaction; else the transaction is the caller's
	// Further rows of the transaction were stored before these, and follow.
	open, more bool

	lane *pgrun.Lane // nil where the transaction is the caller's, or only reads

	now      int64
	missing  []string // accounts that had no row
	ids      numbers  // of the accounts of the jobs, which a decision has locked; 0 without a row
	accounts map[string]ledger.Account
	holds    map[string][]ledger.Hold   // a few of each account, which are in its row
	requests map[string]*ledger.Request // nil for an ID without an answer
	begun    map[string]bool            // spends whose requests are locked
	known    map[string][]byte          // by budget, the digest of the rules that all jobs know, or nil
	rules    map[string]ledger.Rules    // the newest of each of these budgets
	durable  bool                       // an answer was read, and commits wait for a synchronous standby
	pages    book.Pages
	misses   int // the pages of entries that were read

	ctx    context.Context // for the reads that jobs ask for besides
	failed error           // of the connection; nothing is stored after it
}

func (l *Ledger) newRows(q pgrun.Queryer, own bool) *rows {
	return &rows{
		l: l, q: q, own: own, ids: make(numbers), accounts: make(map[string]ledger.Account),
		holds:    make(map[string][]ledger.Hold),
		requests: make(map[string]*ledger.Request), begun: make(map[string]bool),
		known: make(map[string][]byte), rules: make(map[string]ledger.Rules), pages: make(book.Pages),
	}
}

// readAhead is how many entries of each kind are read before a job asks for them, where any may
// leave a window.
const readAhead = 16

// read reads the rows that the jobs will need in one round trip: accounts locked where lock is set,
// or all rows as one state. Where accounts are missing, it creates them and reads again. It leaves
// out the rows that another transaction holds if the lane skips them.
func (r *rows) read(ctx context.Context, jobs []*ledger.Job, lock bool) error {
	r.ctx = ctx
	var spends []string
	for _, job := range jobs {
		for _, key := range job.Accounts {
			r.ids[key] = 0 // until its row is read
		}
		for _, id := range job.Requests {
			r.requests[id] = nil
		}
		for _, k := range job.Rules {
			if had, asked := r.known[k.Budget]; asked && !bytes.Equal(had, k.Digest) {
				k.Digest = nil
			}
			r.known[k.Budget] = k.Digest
		}
		if job.SpendID != "" {
			r.requests[job.SpendID] = nil
			spends = append(spends, job.SpendID)
		}
	}
	keys := slices.Sorted(maps.Keys(r.ids))
	out, sql := &pgx.Batch{}, r.l.sql
	switch {
	case r.open:
	case r.own && lock:
		pgrun.QueueBegin(out)
	case r.own:
		out.Queue("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	}
	if r.own && !r.open {
		out.Queue(sql["plan"], r.lane.LockTimeout(), r.lane.IdleTimeout())
	}
	r.queue(out, keys, spends, lock)
	if err := r.send(out); err != nil || !lock {
		return err
	}
	missing := func(key string) bool { return r.ids[key] == 0 }
	for tries := 0; slices.ContainsFunc(keys, missing) && !(tries > 0 && r.lane.Skips()); tries++ {
		// Another transaction may create an account, and remove it again.
		keys = slices.DeleteFunc(keys, func(key string) bool { return !missing(key) })
		out = &pgx.Batch{}
		out.Queue(sql["create"], keys)
		r.missing = append(r.missing, keys...)
		for _, key := range keys { // a job looks whether an account has moved that is missing
			r.requests[book.FormerID(key)] = nil
		}
		r.queue(out, keys, nil, lock)
		if err := r.send(out); err != nil {
			return err
		}
	}
	return nil
}

// batch returns the batch over the rows.
func (r *rows) batch() *book.Batch {
	b := book.NewBatch(r, r.now)
	b.Pages = r.pages
	return b
}

// queue queues the statements that lock and read accounts, the time, requests, and the entries that
// leave windows.
func (r *rows) queue(out *pgx.Batch, keys, spends []string, lock bool) {
	sql, now := r.l.sql, r.l.run.Now()
	take, skip, alone := "accounts", "", ", alone"
	if lock {
		take = "take"
	}
	if lock && r.lane.Skips() {
		skip = ", skipping"
	}
	var begun []any
	if len(spends) > 0 {
		alone, begun = "", []any{idColumn(spends)}
	}
	out.Queue(sql[take+skip+alone], append([]any{keys}, begun...)...).Query(r.scanAccounts)
	if lock && len(spends) > 0 {
		out.Queue(sql["begun"+skip], begun...).Query(r.scanBegun)
	}
	budgets := slices.Sorted(maps.Keys(r.known))
	digests := column(budgets, func(budget *string) []byte { return r.known[*budget] })
	out.Queue(sql["requests"], idColumn(slices.Sorted(maps.Keys(r.requests))), now, budgets, digests).Query(r.scanRequests)
	out.Queue(sql["watched"+alone], append([]any{keys, now, readAhead + 1}, begun...)...).Query(r.scanWatched)
}

// send sends statements of the transaction that read the clock, among others.
func (r *rows) send(out *pgx.Batch) error {
	if !r.own {
		out = pgrun.WrapByIndex(out)
	}
	before := r.l.process()
	if err := r.q.SendBatch(r.ctx, out).Close(); err != nil {
		return err
	}
	return r.judge(before, r.l.process())
}

// mostApart is how far apart the clocks of the server and of the process may be. An account that
// has decided under a clock which was far ahead keeps that time until somebody mends it.
const mostApart = time.Hour

// judge returns an error if the server's clock, which was read between two readings of the
// process's clock, is too far away from that. A clock that the application injects is its own
// affair.
func (r *rows) judge(before, after time.Time) error {
	server := time.UnixMicro(r.now)
	if r.l.run.Clock != nil || server.After(before.Add(-mostApart)) && server.Before(after.Add(mostApart)) {
		return nil
	}
	return &pgrun.Unfit{
		Subject: "clock",
		Problem: fmt.Sprintf("the server has %s and this program has %s, an hour apart or more",
			server.UTC().Format(time.RFC3339), after.UTC().Format(time.RFC3339)),
		Remedy: "correct the wrong one, and have both synchronized, for instance by chrony",
	}
}

// query sends one more statement of the transaction, and calls each for its rows. If it fails,
// nothing is stored, even if the job ignores the error.
func (r *rows) query(sql string, args []any, each func(pgx.Rows) error) (err error) {
	if r.own {
		_, err = pgrun.Read(r.ctx, r.q, sql, args, each)
	} else {
		_, err = r.l.run.QueryByIndex(r.ctx, r.q, sql, args, each)
	}
	if r.failed == nil {
		r.failed = err
	}
	return err
}

func (r *rows) scanAccounts(row pgx.Rows) error {
	for row.Next() {
		var a ledger.Account
		var id int64
		var pruned, due pgrun.Instant
		var watch []int64
		var holds pgrun.Octets
		err := row.Scan(&a.Key, &id, &pruned, &due, (*pgrun.Octets)(&a.Rules), (*pgrun.Octets)(&a.State), &watch, &holds)
		if err != nil {
			return err
		}
		a.Pruned, a.Due = pruned.Micros, due.Micros
		for ; len(watch) >= 2; watch = watch[2:] {
			a.Watch = append(a.Watch, ledger.Watch{After: watch[0], Width: watch[1]})
		}
		list := unpack(a.Key, holds)
		if !bytes.Equal(pack(list), holds) {
			a.State = []byte{} // it reads as damaged
		}
		r.accounts[a.Key], r.ids[a.Key], r.holds[a.Key] = a, id, list
	}
	return row.Err()
}

func (r *rows) scanBegun(row pgx.Rows) error {
	for row.Next() {
		var id pgrun.Octets
		if err := row.Scan(&id); err != nil {
			return err
		}
		r.begun[idText(id)] = true
	}
	return row.Err()
}

func (r *rows) scanRequests(row pgx.Rows) error {
	for row.Next() {
		var now pgrun.Instant
		var waits bool
		var rules revision
		request, err := scanRequest(row, []any{&now, &waits}, rules.fields()...)
		switch {
		case err != nil:
			return err
		case rules.Seq != 0:
			r.rules[rules.Budget] = rules.rules()
			continue
		case request.ID != "":
			r.requests[request.ID] = request
			r.durable = waits
		}
		r.now = now.Micros
	}
	return row.Err()
}

// scanWatched reads the entries that leave windows. A window without a row may have entries that
// were not looked for.
func (r *rows) scanWatched(row pgx.Rows) error {
	type window struct {
		account string
		place   int32
		after   int64
	}
	read := make(map[window]*book.Listing)
	for row.Next() {
		var of window
		var line listed
		if err := row.Scan(append([]any{&of.account, &of.place, &of.after}, line.fields()...)...); err != nil {
			return err
		}
		if read[of] == nil {
			read[of] = book.NewListing(math.MaxInt64, readAhead+1)
		}
		if err := line.addTo(read[of], of.account); err != nil {
			return err
		}
	}
	for of, l := range read {
		list, through := l.Page()
		r.pages.Keep(of.account, ledger.EndOf(of.after), list, through, 0)
	}
	return row.Err()
}

// listed is the target of a scan of an entry that a statement has found by its time, or as a
// correction by its date.
type listed struct {
	entryRow
	corrects bool
}

func (l *listed) fields() []any { return append([]any{&l.corrects}, l.entryRow.fields()...) }

// addTo adds the entry, which is that of an account, to a listing.
func (l *listed) addTo(page *book.Listing, account string) error {
	e, err := l.entry(account)
	if err == nil {
		page.Add(e, l.corrects)
	}
	return err
}
