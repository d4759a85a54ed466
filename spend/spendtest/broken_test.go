package spendtest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/spend/memledger"
	"github.com/brimgo/brim/store"
)

// brokenLedger is a ledger in memory with a fault, or a correct one.
type brokenLedger struct {
	ledger.Ledger
	fault fault
	disk  *brokenDisk

	mu     sync.Mutex
	closed bool
}

// brokenDisk is the memory of some faults. It survives a restart.
type brokenDisk struct {
	mu      sync.Mutex
	entries map[string][]ledger.Entry // of each request
	answers map[string][]byte         // the last answer of each account
	rules   map[string][]byte         // the first of each account
	ends    map[string]int64          // the last entry of each account
	ids     map[string]bool           // of all requests
	lost    struct {                  // by a restart, or by pruning
		ids     map[string]bool
		entries map[string]int64 // up to this number in each account
		holds   map[string]bool  // by ID
	}
}

func newBroken(f fault, clock func() time.Time) *brokenLedger {
	disk := &brokenDisk{
		entries: make(map[string][]ledger.Entry), answers: make(map[string][]byte), rules: make(map[string][]byte),
		ends: make(map[string]int64), ids: make(map[string]bool),
	}
	disk.lost.ids, disk.lost.holds = make(map[string]bool), make(map[string]bool)
	disk.lost.entries = make(map[string]int64)
	return &brokenLedger{Ledger: memledger.New(&memledger.Options{Clock: clock}), fault: f, disk: disk}
}

func brokenHarness(f fault) Harness {
	return Harness{
		New: func(_ testing.TB, clock func() time.Time) ledger.Ledger { return newBroken(f, clock) },
		Crash: func(_ testing.TB, l ledger.Ledger, call func(ledger.Ledger)) {
			call(lostLedger{l.(*brokenLedger)})
		},
		Reopen: func(t testing.TB, l ledger.Ledger, _ func() time.Time) ledger.Ledger {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			return l.(*brokenLedger).reopened()
		},
		Ledgers: 2, PerLedger: 4,
	}
}

// reopened returns the ledger after a restart.
func (l *brokenLedger) reopened() *brokenLedger {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	switch l.fault {
	case losesAnswersAtRestart:
		maps.Copy(l.disk.lost.ids, l.disk.ids)
	case losesEntriesAtRestart:
		maps.Copy(l.disk.lost.entries, l.disk.ends)
	case losesHoldsAtRestart:
		maps.Copy(l.disk.lost.holds, l.disk.ids)
	}
	return &brokenLedger{Ledger: l.Ledger, fault: l.fault, disk: l.disk}
}

func (l *brokenLedger) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}

// enter returns the context of a call, or the error of a closed ledger.
func (l *brokenLedger) enter(ctx context.Context) (context.Context, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed && l.fault != usableAfterClose {
		return ctx, store.ErrClosed
	}
	if l.fault == ignoresContext {
		ctx = context.WithoutCancel(ctx)
	}
	return ctx, nil
}

// Decide runs a job. With some faults it reads before it locks.
func (l *brokenLedger) Decide(ctx context.Context, job *ledger.Job) error {
	ctx, err := l.enter(ctx)
	if err != nil {
		return err
	}
	early := *job
	switch l.fault {
	case decidesBeforeLock:
		var changes *ledger.Changes
		early.Run = func(snap ledger.Snapshot) (_ *ledger.Changes, err error) {
			changes, err = job.Run(snap)
			return nil, err
		}
		if err := l.Ledger.View(ctx, &early); err != nil {
			return err
		}
		early.Run = func(ledger.Snapshot) (*ledger.Changes, error) { return changes, nil }
		return l.Ledger.Decide(ctx, &early)
	case readsIDsBeforeLock, readsSpendBeforeLock:
		ids := job.Requests
		if l.fault == readsSpendBeforeLock {
			ids = []string{job.SpendID}
		}
		found := make(map[string]*ledger.Request)
		read := ledger.Job{Run: func(snap ledger.Snapshot) (_ *ledger.Changes, err error) {
			for _, id := range ids {
				if found[id], err = snap.Request(id); err != nil {
					return nil, err
				}
			}
			return nil, nil
		}}
		if err := l.Ledger.View(ctx, &read); err != nil {
			return err
		}
		early.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
			return job.Run(earlySnapshot{snap, found})
		}
		return l.Ledger.Decide(ctx, &early)
	}
	early.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
		changes, err := job.Run(&brokenSnapshot{Snapshot: snap, l: l})
		if err != nil {
			return nil, err
		}
		return l.stored(job, changes), nil
	}
	early.SpendID = l.kept(job.SpendID)
	return l.Ledger.Decide(ctx, &early)
}

// DecideAll runs jobs one after the other, or in another way with some faults.
func (l *brokenLedger) DecideAll(ctx context.Context, jobs []*ledger.Job) []error {
	errs, order := make([]error, len(jobs)), make([]int, len(jobs))
	for i := range jobs {
		order[i] = i
	}
	if l.fault == togetherReversed {
		slices.Reverse(order)
	}
	if l.fault == togetherOnOldState {
		jobs = l.decidedEarly(ctx, jobs)
	}
	for _, i := range order {
		errs[i] = l.Decide(ctx, jobs[i])
	}
	if l.fault == togetherFails {
		failed := errors.Join(errs...)
		for i := range errs {
			errs[i] = failed
		}
	}
	return errs
}

// decidedEarly returns jobs whose changes are those that they would make now.
func (l *brokenLedger) decidedEarly(ctx context.Context, jobs []*ledger.Job) (early []*ledger.Job) {
	for _, job := range jobs {
		var changes *ledger.Changes
		var own error
		read, decided := *job, *job
		read.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
			changes, own = job.Run(snap)
			return nil, nil
		}
		if err := l.Ledger.View(ctx, &read); err != nil {
			own = err
		}
		decided.Run = func(ledger.Snapshot) (*ledger.Changes, error) { return changes, own }
		early = append(early, &decided)
	}
	return early
}

func (l *brokenLedger) View(ctx context.Context, job *ledger.Job) error {
	ctx, err := l.enter(ctx)
	if err != nil {
		return err
	}
	view := *job
	view.Run = func(snap ledger.Snapshot) (*ledger.Changes, error) {
		return job.Run(&brokenSnapshot{Snapshot: snap, l: l})
	}
	return l.Ledger.View(ctx, &view)
}

func (l *brokenLedger) History(
	ctx context.Context, account string, before ledger.Position, limit int,
) ([]ledger.Entry, error) {
	ctx, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	switch l.fault {
	case historyShortPages:
		limit = max(1, limit-1)
	case historyRepeats:
		if before.Seq != 0 {
			before.Seq++
		}
	}
	entries, err := l.Ledger.History(ctx, l.keptAccount(account), before, limit)
	if l.fault == historyOldestFirst {
		slices.Reverse(entries)
	}
	return l.left(account, entries), err
}

func (l *brokenLedger) Accounts(
	ctx context.Context, prefix, after string, due int64, limit int,
) (keys []string, next string, err error) {
	if ctx, err = l.enter(ctx); err != nil {
		return nil, "", err
	}
	switch l.fault {
	case accountsOfAll:
		prefix = ""
	case accountsDueLate:
		due = max(due, 1) - 1
	}
	keys, next, err = l.Ledger.Accounts(ctx, prefix, after, due, limit)
	if l.fault == accountsOnePage {
		next = ""
	}
	return keys, next, err
}

func (l *brokenLedger) Revisions(ctx context.Context, budget string, before int64, limit int) ([]ledger.Rules, error) {
	ctx, err := l.enter(ctx)
	if err != nil {
		return nil, err
	}
	if l.fault == revisionsRepeat && before != 0 {
		before++
	}
	list, err := l.Ledger.Revisions(ctx, budget, before, limit)
	if l.fault == revisionsOldestFirst {
		slices.Reverse(list)
	}
	return list, err
}

func (l *brokenLedger) PruneRequests(ctx context.Context, prefix string, before int64) (int64, error) {
	ctx, err := l.enter(ctx)
	if err != nil {
		return 0, err
	}
	switch l.fault {
	case neverPrunesIDs:
		return 0, nil
	case prunesIDsEarly:
		before += (60 * days).Microseconds()
	case prunesAllBudgets:
		prefix = ""
	case prunesOpenHolds:
		l.disk.mu.Lock()
		defer l.disk.mu.Unlock()
		for id, entries := range l.disk.entries {
			if entries[0].At < before {
				l.disk.lost.ids[id] = true
			}
		}
	}
	return l.Ledger.PruneRequests(ctx, prefix, before)
}

// lostLedger is a ledger whose transactions are lost.
type lostLedger struct{ *brokenLedger }

// Decide runs a job and drops its changes, or some of them with a fault.
func (l lostLedger) Decide(ctx context.Context, job *ledger.Job) error {
	var changes *ledger.Changes
	lost := *job
	lost.Run = func(snap ledger.Snapshot) (_ *ledger.Changes, err error) {
		changes, err = job.Run(snap)
		return nil, err
	}
	if err := l.View(ctx, &lost); err != nil || changes == nil {
		return err
	}
	var left ledger.Changes
	switch l.fault {
	case keepsLostEntries:
		left.Accounts, left.Entries = changes.Accounts, changes.Entries
	case keepsLostAnswers:
		left.Requests = changes.Requests
	case keepsLostRules:
		left.Rules = changes.Rules
	}
	lost.Run = func(ledger.Snapshot) (*ledger.Changes, error) { return &left, nil }
	return l.Ledger.Decide(ctx, &lost)
}

func (l lostLedger) DecideAll(ctx context.Context, jobs []*ledger.Job) (errs []error) {
	for _, job := range jobs {
		errs = append(errs, l.Decide(ctx, job))
	}
	return errs
}
