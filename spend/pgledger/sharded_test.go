package pgledger_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// sharded is a ledger on several servers. Names of accounts and IDs begin with the shard of the
// account, as in 07-card:7 and 07-pay-1, and a shard stays on its server for ever. Rules are set on
// the first server, and copied to the others.
type sharded struct {
	servers []ledger.Ledger
	home    map[string]int // number of the server, by shard
}

// of returns the server of all accounts and IDs of a job, or nil for a job about rules alone.
func (s *sharded) of(job *ledger.Job) (found ledger.Ledger, err error) {
	names := slices.Clone(job.Requests)
	for _, key := range job.Accounts {
		_, account, _ := strings.Cut(key, "/") // from its budget
		names = append(names, account)
	}
	if job.SpendID != "" {
		names = append(names, job.SpendID)
	}
	for _, name := range names {
		shard, _, _ := strings.Cut(name, "-")
		n, known := s.home[shard]
		switch {
		case !known:
			return nil, fmt.Errorf("%w: an account or an ID names no shard", spend.ErrRequest)
		case found != nil && found != s.servers[n]:
			return nil, fmt.Errorf("one request about two servers: %w", errors.ErrUnsupported)
		}
		found = s.servers[n]
	}
	return found, nil
}

// Decide decides on the server of the job. Rules go to the first server, and then to the others.
func (s *sharded) Decide(ctx context.Context, job *ledger.Job) error {
	l, err := s.of(job)
	if l != nil {
		return l.Decide(ctx, job)
	}
	if err == nil {
		err = s.servers[0].Decide(ctx, job)
	}
	if err != nil {
		return err
	}
	for _, of := range job.Rules {
		for _, to := range s.servers[1:] {
			if err := copyRules(ctx, of.Budget, s.servers[0], to); err != nil {
				return fmt.Errorf("%w: %w", store.ErrUnknownOutcome, err) // to set the rules again copies them
			}
		}
	}
	return nil
}

// copyRules gives a server the revisions that it lacks.
func copyRules(ctx context.Context, budget string, from, to ledger.Ledger) error {
	list, err := from.Revisions(ctx, budget, 0, math.MaxInt32)
	if err != nil {
		return err
	}
	return to.Decide(ctx, &ledger.Job{Rules: []ledger.Known{{Budget: budget}}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		newest, err := snap.Rules(budget)
		c := new(ledger.Changes)
		for _, r := range slices.Backward(list) {
			if r.Seq > newest.Seq {
				c.Rules = append(c.Rules, r)
			}
		}
		return c, err
	}})
}

func (s *sharded) DecideAll(ctx context.Context, jobs []*ledger.Job) (errs []error) {
	for _, job := range jobs { // jobs of one server could share a transaction
		errs = append(errs, s.Decide(ctx, job))
	}
	return errs
}

// View shows a job about rules alone every server, so that one without the rules gets them.
func (s *sharded) View(ctx context.Context, job *ledger.Job) error {
	l, err := s.of(job)
	if l != nil {
		return l.View(ctx, job)
	}
	for i := 0; err == nil && i < len(s.servers); i++ {
		err = s.servers[i].View(ctx, job)
	}
	return err
}

func (s *sharded) History(ctx context.Context, account string, before ledger.Position, limit int) ([]ledger.Entry, error) {
	l, err := s.of(&ledger.Job{Accounts: []string{account}})
	if err != nil {
		return nil, err
	}
	return l.History(ctx, account, before, limit)
}

// Accounts returns pages of one server each, because one job may read all accounts of a page.
func (s *sharded) Accounts(ctx context.Context, prefix, after string, due int64, limit int) (keys []string, next string, err error) {
	if due != 0 { // a Prune: see PruneRequests
		return nil, "", errors.ErrUnsupported
	}
	for _, l := range s.servers {
		list, end, err := l.Accounts(ctx, prefix, after, 0, limit)
		if err != nil {
			return nil, "", err
		}
		if keys = append(keys, list...); end != "" && (next == "" || end < next) {
			next = end // that server may have further ones behind it
		}
	}
	slices.Sort(keys)
	n := 0
	for ; n < len(keys) && n < limit && (next == "" || keys[n] <= next); n++ {
		if _, err := s.of(&ledger.Job{Accounts: []string{keys[0], keys[n]}}); err != nil {
			break
		}
	}
	if n < len(keys) {
		next = keys[n-1]
	}
	return keys[:n], next, nil
}

func (s *sharded) Revisions(ctx context.Context, budget string, before int64, limit int) ([]ledger.Rules, error) {
	return s.servers[0].Revisions(ctx, budget, before, limit)
}

func (s *sharded) PruneRequests(context.Context, string, int64) (int64, error) {
	return 0, errors.ErrUnsupported // for each server: cards.With(server).Prune(ctx)
}

func (s *sharded) Close() (err error) {
	for _, l := range s.servers {
		err = errors.Join(err, l.Close())
	}
	return err
}

// chargeBoth charges a card, and its team on another server. The team holds the money until the
// card has it or declines. Send it again after an error: its IDs are the same. If the card has
// declined, a retry is declined as canceled.
func chargeBoth(ctx context.Context, cards, teams *spend.Budgets, card spend.Request, team string) (spend.Decision, error) {
	shard, _, _ := strings.Cut(team, "-")
	hold := spend.Request{ID: shard + "-" + card.ID, Account: team, Amount: card.Amount, OnExpiry: spend.SpendOnExpiry}
	d, err := teams.Authorize(ctx, hold)
	if err != nil || !d.Approved {
		return d, err
	}
	if d, err = cards.Charge(ctx, card); err != nil {
		return d, err
	}
	if !d.Approved {
		_, err = teams.Cancel(ctx, hold.ID, team)
		return d, err
	}
	_, err = teams.Capture(ctx, spend.CaptureRequest{ID: hold.ID + ".end", HoldID: hold.ID, Amount: card.Amount, Final: true})
	if errors.Is(err, spend.ErrHoldExpired) { // which has spent the money
		err = nil
	}
	return d, err
}
