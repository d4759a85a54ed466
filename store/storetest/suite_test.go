package storetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/store"
)

func openRef(f fault) func(t *testing.T) store.Store {
	return func(*testing.T) store.Store { return newRef(f, nil) }
}

func refOptions(f fault) *Options {
	return &Options{
		OpenAt: func(_ *testing.T, clock func() time.Time) store.Store { return newRef(f, clock) },
		Reopen: func(_ *testing.T, s store.Store, clock func() time.Time) store.Store {
			return s.(*refStore).reopened(clock)
		},
		Peer: func(_ *testing.T, s store.Store) store.Store { return s.(*refStore).peer(nil) },
	}
}

// TestReference runs the whole suite on a correct store.
func TestReference(t *testing.T) {
	t.Parallel()
	Run(t, openRef(none), refOptions(none))
}

// TestWithoutOptions runs the suite on a correct store without options.
func TestWithoutOptions(t *testing.T) { Run(t, openRef(none), nil) }

// plain is a correct store that supports neither ceilings nor penalties.
type plain struct{ *refStore }

func lacks(op store.Op) bool { return op.Ceiling != 0 || op.BlockFor != 0 }

func (p plain) Fill(ctx context.Context, op store.Op) (store.State, error) {
	if lacks(op) {
		return store.State{}, errors.ErrUnsupported
	}
	return p.refStore.Fill(ctx, op)
}

func (p plain) Apply(ctx context.Context, txns ...store.Txn) ([]store.Result, error) {
	for _, txn := range txns {
		if slices.ContainsFunc(txn, lacks) {
			return nil, errors.ErrUnsupported
		}
	}
	return p.refStore.Apply(ctx, txns...)
}

// TestUnsupported runs the suite on a store that does not support every operation.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	operations := 5000
	if testing.Short() {
		operations = 1000
	}
	Run(t, func(*testing.T) store.Store { return plain{newRef(none, nil)} }, &Options{
		OpenAt:      func(_ *testing.T, clock func() time.Time) store.Store { return plain{newRef(none, clock)} },
		Unsupported: lacks,
		Operations:  operations,
		Keys:        500,
	})
}

// inChild names the environment variable that is set if the test binary runs itself to watch
// the suite fail.
const inChild = "BRIM_STORETEST_BROKEN"

// TestBroken tests that the suite fails every broken store, in the test that is meant to find
// its fault. The failures happen in a child process of the same test binary, which runs the
// relevant part of the suite on each broken store.
func TestBroken(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the search for faults that are rare")
	}
	if os.Getenv(inChild) != "" {
		runBroken(t)
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0],
		"-test.run=^TestBroken$", "-test.timeout=5m", "-rapid.nofailfile", "-rapid.shrinktime=1ms")
	child.Dir = t.TempDir()
	child.Env = append(os.Environ(), inChild+"=1")
	out, err := child.CombinedOutput()
	if err == nil {
		t.Errorf("the suite passed every broken store")
	}
	failed := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: TestBroken/"); ok {
			name, _, _ = strings.Cut(name, " (")
			failed[name] = true
		}
	}
	faults := make(map[fault]bool)
	var passed []brokenStore
	for _, b := range broken {
		faults[b.fault] = true
		if name := b.name() + "/" + b.test; !failed[strings.ReplaceAll(name, " ", "_")] {
			passed = append(passed, b)
		}
	}
	if len(passed) > 0 {
		// The names come last: whoever prints only the end of a long output shows them.
		t.Logf("the child process: %v\n%.20000s", err, out)
		for _, b := range passed {
			t.Errorf("a store that %s passes %q", b.fault, b.test)
		}
		t.FailNow()
	}
	t.Logf("all %d broken stores are caught", len(faults))
}

// runBroken runs the parts of the suite that must fail.
func runBroken(t *testing.T) {
	for _, b := range broken {
		t.Run(b.name(), func(t *testing.T) {
			t.Parallel()
			o := refOptions(b.fault)
			o.Keys, o.Operations = 1000, 100_000
			s := newSuite(openRef(b.fault), o)
			if slices.Contains(hangs, b.fault) {
				s.patience = time.Second
			}
			for _, part := range parts {
				if part.name == b.part() {
					t.Run(part.name, func(t *testing.T) { part.run(s, t) })
				}
			}
		})
	}
}
