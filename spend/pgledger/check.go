package pgledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/internal/trial"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Check finds out whether a ledger beside a store with the options o can keep its promises, by
// trying: it authorizes and captures in a transaction that it rolls back. It also looks at the
// tables, at the rights of the user on them, and for accounts whose time is ahead of the server's.
// o may be nil. [postgres.Check] judges the server and tries a commit, so call both.
//
// If the user has no right on any of the tables, the program most likely does not spend, and the
// one finding is [store.Unchecked].
//
// An error means that the server gave no answer, or that an option is invalid.
func Check(ctx context.Context, pool *pgxpool.Pool, o *postgres.Options) ([]store.Finding, error) {
	options := postgres.Options{}
	if o != nil {
		options = *o
	}
	options.PruneEvery = -1
	s, err := postgres.New(pool, &options)
	if err != nil {
		return nil, store.Wrap("pgledger", "check", err)
	}
	defer func() { _ = s.Close() }()
	l, err := New(s, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	return l.check(ctx)
}

func (l *Ledger) check(ctx context.Context) ([]store.Finding, error) {
	k, usable := &pgrun.Check{}, false
	err := l.run.Look(ctx, "check", func(ctx context.Context, conn *pgxpool.Conn) error {
		k = &pgrun.Check{Conn: conn.Conn(), Names: l.run.Names}
		var err error
		if usable, err = tables(ctx, k); err != nil || !usable {
			return err
		}
		return k.Try(ctx, func(tx pgx.Tx) error {
			before, err := l.newest(ctx, tx)
			if err == nil {
				err = try(ctx, &trialLedger{Ledger: l.With(tx)})
			}
			if err == nil {
				err = l.identity(ctx, tx, k, before)
			}
			if err == nil {
				err = l.ahead(ctx, tx, k)
			}
			return err
		})
	})
	switch {
	case k.Unfit(err):
		return k.Findings, nil
	case err == nil && usable:
		_, err = k.Open(ctx, false, k.Names.Ledger(), func(f func(context.Context, *pgx.Conn) error) error {
			return l.run.Look(ctx, "check", func(ctx context.Context, conn *pgxpool.Conn) error { return f(ctx, conn.Conn()) })
		})
	}
	if err != nil {
		return nil, err
	}
	return k.Findings, nil
}

// newest returns the highest id of an account, or 0.
func (l *Ledger) newest(ctx context.Context, tx pgx.Tx) (id int64, err error) {
	_, err = l.run.QueryByIndex(ctx, tx, l.sql["newest"], nil, func(row pgx.Rows) error { return row.Scan(&id) })
	return id, err
}

// identity judges the sequence of the ids of accounts. The trial has made an account, whose id is
// above all that were committed before unless the sequence is behind. This needs no right on the
// sequence.
func (l *Ledger) identity(ctx context.Context, tx pgx.Tx, k *pgrun.Check, before int64) error {
	after, err := l.newest(ctx, tx)
	if err == nil && after == before {
		k.Add(store.Broken, "identity", fmt.Sprintf("the sequence of the ids of accounts is behind their highest id, %d, "+
			"so new accounts will fail", after), k.Identity())
	}
	return err
}

// tables judges the tables, and reports whether a decision can work on them.
func tables(ctx context.Context, k *pgrun.Check) (bool, error) {
	keys := [...][]string{ // in the order of Names.Ledger
		{"id", "key"}, {"account, at, seq"}, {"id"}, {"id"}, {"account, expires, spend"}, {"budget, seq"},
	}
	rights := [...][]string{ // in the same order
		{"SELECT", "INSERT", "UPDATE", "DELETE"},
		{"SELECT", "INSERT"},
		{"SELECT", "INSERT", "UPDATE spend"},
		{"SELECT", "INSERT", "UPDATE"},
		{"SELECT", "INSERT", "DELETE"},
		{"SELECT"},
	}
	all, unused, missing := true, true, false
	var usable []string
	for i, name := range k.Names.Ledger() {
		t, fit, err := k.Table(ctx, name, rights[i], keys[i]...)
		if err != nil {
			return false, err
		}
		if fit {
			usable = append(usable, t.Name)
		}
		all = all && fit
		unused = unused && t.Denied
		missing = missing || t.Missing
	}
	if missing {
		if err := lost(ctx, k, usable); err != nil {
			return false, err
		}
	}
	if unused {
		k.Findings = nil
		k.Add(store.Unchecked, "ledger", fmt.Sprintf("the user %s has no right on the tables of spends", k.User),
			"none if the program does not spend; else grant the rights at the end of 0002_ledger.up.sql, as \"brim migrate sql\" prints it")
	}
	return all, nil
}

// lost gives the tables that are missing another remedy, if others have rows: migrations.Up refuses
// to make an empty table beside them.
func lost(ctx context.Context, k *pgrun.Check, tables []string) error {
	rows := false
	for _, name := range tables {
		if err := k.Conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM "+name+")", pgrun.Plain).Scan(&rows); err != nil {
			return err
		}
		if rows {
			break
		}
	}
	for i := range k.Findings {
		if f := &k.Findings[i]; rows && f.Remedy == pgrun.Migrate {
			f.Problem += ", and other tables of the ledger have rows"
			f.Remedy = "bring it back from the last pg_dump, or restore the database to the time before, from its last base backup and " +
				"the WAL since; \"brim migrate up\" refuses, because an empty table would forget what was spent"
		}
	}
	return nil
}

// mostAhead is the number of accounts with requests of the future of which a check asks for the
// time.
const mostAhead = 100

// ahead finds the accounts that have decided under a clock which was ahead, and that have not been
// mended since.
func (l *Ledger) ahead(ctx context.Context, tx pgx.Tx, k *pgrun.Check) error {
	type account struct {
		key, currency string
		now           pgrun.Instant
	}
	var asked []account
	_, err := l.run.QueryByIndex(ctx, tx, l.sql["ahead"], []any{mostAhead}, func(row pgx.Rows) error {
		var a account
		err := row.Scan(&a.key, &a.currency, &a.now)
		asked = append(asked, a)
		return err
	})
	if err != nil {
		return err
	}
	n, until, now, one := 0, time.Time{}, time.Time{}, ""
	for _, a := range asked {
		budget, name, _ := strings.Cut(a.key, "/")
		var d spend.Decision
		b, err := spend.Open(ctx, l.With(tx), budget, nil)
		if err == nil {
			d, err = b.AbleToAccept(ctx, spend.Request{Account: name, Amount: spend.Money{Minor: 1, Currency: a.currency}})
		}
		switch {
		case errors.Is(err, store.ErrCorrupt), errors.Is(err, spend.ErrRequest), errors.Is(err, store.ErrMisconfigured):
			// Verify tells of damage, and of rules that are gone, and decisions of rules that this
			// program cannot read.
		case err != nil:
			return err
		case d.At.After(time.UnixMicro(a.now.Micros).Add(time.Minute)):
			n++
			now = time.UnixMicro(a.now.Micros)
			if d.At.After(until) {
				until, one = d.At, a.key
			}
		}
	}
	if n > 0 {
		severity := store.Warning
		if until.Sub(now) > store.DefaultMaxSkew {
			severity = store.Broken
		}
		k.Add(severity, "accounts", fmt.Sprintf("the time of %d accounts is ahead, of %q until %v: "+
			"until then their windows stand still, and make no room", n, one, until.Format(time.RFC3339)),
			"correct the clock, and call Mend for each such account, or \"brim spend mend\"; the requests of the future name the accounts")
	}
	return nil
}

// trialLedger is the ledger of a check, which brings rules of its own and keeps them in memory: a
// user who may not set rules can check, and a budget of the same name keeps its rules.
type trialLedger struct {
	ledger.Ledger
	rules ledger.Rules
}

// Decide decides by the rules of the check.
func (l *trialLedger) Decide(ctx context.Context, job *ledger.Job) error {
	return l.Ledger.Decide(ctx, l.job(job))
}

// View is as Decide.
func (l *trialLedger) View(ctx context.Context, job *ledger.Job) error {
	return l.Ledger.View(ctx, l.job(job))
}

// job returns the job with the rules of the check.
func (l *trialLedger) job(job *ledger.Job) *ledger.Job {
	own := *job
	own.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
		c, err := job.Run(trialSnapshot{snap, l})
		if c != nil && len(c.Rules) > 0 {
			l.rules, c.Rules = c.Rules[0], nil
		}
		return c, err
	}
	return &own
}

type trialSnapshot struct {
	ledger.Snapshot
	l *trialLedger
}

// Rules reads the rules of the ledger, too, as a decision does.
func (s trialSnapshot) Rules(budget string) (ledger.Rules, error) {
	_, err := s.Snapshot.Rules(budget)
	return s.l.rules, err
}

// try authorizes on an account of its own until a hold is in the table of holds, captures that
// hold, and reads the account.
func try(ctx context.Context, l ledger.Ledger) error {
	one := spend.Money{Minor: 1, Currency: "EUR"}
	b, err := spend.New(ctx, l, spend.Budget{
		Name: "check", Currency: one.Currency, Rules: []spend.Rule{
			spend.Rolling("check", spend.Money{Minor: mostHolds + 1, Currency: one.Currency}, time.Hour),
		},
	}, nil)
	if err != nil {
		return err
	}
	key, id := trial.Key(), ""
	for i := range mostHolds + 1 {
		id = fmt.Sprint(key, "/", i)
		d, err := b.Authorize(ctx, spend.Request{ID: id, Account: key, Amount: one, Tags: map[string]string{"check": key}})
		if err != nil || !d.Approved {
			return &trial.Failure{Step: "an authorization", Err: err}
		}
	}
	d, err := b.Capture(ctx, spend.CaptureRequest{ID: key + "/capture", HoldID: id, Amount: one})
	if errors.Is(err, spend.ErrUnknownSpend) { // row security hides it
		err = nil
	}
	if err != nil || !d.Approved {
		return &trial.Failure{Step: "a capture", Err: err}
	}
	if used, err := b.Remaining(ctx, key); err != nil || used[0].Used != one {
		return &trial.Failure{Step: "a read of an account", Err: err}
	}
	return nil
}
