package spend_test

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// Stored bytes that are damaged are ErrCorrupt, wherever they end.
func TestTruncatedData(t *testing.T) {
	for _, c := range []struct {
		name  string
		calls []string
		cut   func(s *snapshot, n int) // to n bytes; to all but one for -1
	}{
		{
			name: "account", calls: []string{"Charge", "AbleToAccept", "Remaining", "Verify", "Prune"},
			cut: func(s *snapshot, n int) {
				s.account = func(a ledger.Account) ledger.Account { a.State = cut(a.State, n); return a }
			},
		},
		{
			name: "rules", calls: []string{"Charge", "AbleToAccept", "Remaining", "Verify", "Prune"},
			cut: func(s *snapshot, n int) {
				s.account = func(a ledger.Account) ledger.Account { a.Rules = cut(a.Rules, n); return a }
			},
		},
		{
			name: "spend", calls: []string{"Capture", "Void", "Increase", "Refund"},
			cut: func(s *snapshot, n int) { s.request = func(r *ledger.Request) { r.Spend = cut(r.Spend, n) } },
		},
		{
			name: "answer", calls: []string{"Charge, replayed", "Get", "Get, of no spend"},
			cut: func(s *snapshot, n int) { s.request = func(r *ledger.Request) { r.Answer = cut(r.Answer, n) } },
		},
	} {
		for _, name := range c.calls {
			l, b := busyAccount(t) // which no failing call changes
			for n := -1; n < 40; n++ {
				l.wrap = func(snap ledger.Snapshot) ledger.Snapshot {
					s := &snapshot{Snapshot: snap}
					c.cut(s, n)
					return s
				}
				if got, err := calls[name](t.Context(), b); !errors.Is(err, store.ErrCorrupt) || !reflect.ValueOf(got).IsZero() {
					t.Fatalf("%s with %s cut to %d bytes: %+v, %v; want ErrCorrupt alone", name, c.name, n, got, err)
				}
			}
		}
	}
}

// cut returns a non-nil copy of the first n bytes of b, or all bytes but the
// last for -1 and for an n that cuts nothing.
func cut(b []byte, n int) []byte {
	if b == nil {
		return nil
	}
	if n < 0 || n >= len(b) {
		n = len(b) - 1
	}
	return append([]byte{}, b[:n]...)
}

func TestDamagedData(t *testing.T) {
	for _, c := range []struct {
		name, call, why string
		damage          func(*snapshot)
		want            error // nil for ErrCorrupt
	}{
		{
			name: "another format", call: "Charge", why: "a newer version has written the account",
			damage: func(s *snapshot) {
				s.account = func(a ledger.Account) ledger.Account {
					a.State = append([]byte{a.State[0] + 1}, a.State[1:]...)
					return a
				}
			},
		},
		{
			name: "a spend without accounts", call: "Capture", why: "its parts belong to accounts",
			damage: func(s *snapshot) { s.request = func(r *ledger.Request) { r.Accounts = nil } },
		},
		{
			name: "a hold of another account", call: "Charge", why: "the hold cannot be released here",
			damage: func(s *snapshot) { s.request = func(r *ledger.Request) { r.Accounts = []string{"cards/b"} } },
		},
		{
			name: "an entry is missing", call: "Verify", why: "entries are numbered without gaps",
			damage: entries(func(e []ledger.Entry) []ledger.Entry { return append(e[:1], e[2:]...) }),
		},
		{
			name: "the last entry is missing", call: "Verify", why: "the account has counted it",
			damage: entries(func(e []ledger.Entry) []ledger.Entry { return e[:len(e)-1] }),
		},
		{
			name: "all entries are missing", call: "Verify", why: "a Lifetime rule keeps them",
			damage: entries(func([]ledger.Entry) []ledger.Entry { return nil }),
		},
		{
			name: "the only entry left is another", call: "Verify", why: "the account has counted five",
			damage: entries(func(e []ledger.Entry) []ledger.Entry { return e[:1] }),
		},
		{
			name: "another held amount", call: "Verify", why: "the figures differ from the sum",
			damage: entries(func(e []ledger.Entry) []ledger.Entry { e[1].Held++; return e }),
		},
		{
			name: "a correction of a later entry", call: "Verify", why: "an entry corrects an earlier one, or stands alone",
			damage: entries(func(e []ledger.Entry) []ledger.Entry { e[0].Part = 2; return e }),
		},
		{
			name: "another used amount", call: "Verify", why: "the figures differ from the sum",
			damage: entries(func(e []ledger.Entry) []ledger.Entry { e[2].Used++; return e }),
		},
		{
			name: "an entry dated in its future", call: "Verify", why: "no entry is dated after its decision",
			damage: entries(func(e []ledger.Entry) []ledger.Entry { e[0].Dated = e[0].At + 1; return e }),
		},
		{
			name: "time runs back", call: "Verify", why: "the time of an account never runs back",
			damage: entries(func(e []ledger.Entry) []ledger.Entry { e[0].At++; return e }),
		},
		{
			name: "amounts out of range", call: "Verify", why: "a sum must not wrap around",
			damage: entries(func(e []ledger.Entry) []ledger.Entry {
				e[0].Used, e[1].Used = 1<<62, 1<<62
				return e
			}),
			want: spend.ErrAmount,
		},
	} {
		l, b := busyAccount(t)
		l.wrap = func(snap ledger.Snapshot) ledger.Snapshot {
			s := &snapshot{Snapshot: snap}
			c.damage(s)
			return s
		}
		want := c.want
		if want == nil {
			want = store.ErrCorrupt
		}
		if got, err := calls[c.call](t.Context(), b); !errors.Is(err, want) || !reflect.ValueOf(got).IsZero() {
			t.Errorf("%s with %s: %+v, %v; want %v alone: %s", c.call, c.name, got, err, want, c.why)
		}
	}
}

func entries(change func([]ledger.Entry) []ledger.Entry) func(*snapshot) {
	return func(s *snapshot) { s.since = change }
}

// TestEveryByte changes each byte of each value that package spend gives to a ledger, and each
// field that stands beside the value, but Watch, by which a ledger reads ahead. Whoever reads the
// value says so.
func TestEveryByte(t *testing.T) {
	found, all := 0, 0
	l, b := busyAccount(t) // which no failing call changes
	try := func(call, name string, damage func(*snapshot)) {
		t.Helper()
		l.wrap = func(snap ledger.Snapshot) ledger.Snapshot {
			s := &snapshot{Snapshot: snap}
			damage(s)
			return s
		}
		all++
		if got, err := calls[call](t.Context(), b); !errors.Is(err, store.ErrCorrupt) || !reflect.ValueOf(got).IsZero() {
			t.Errorf("%s with another %s: %+v, %v; want ErrCorrupt alone", call, name, got, err)
			return
		}
		found++
	}
	account := func(name string, change func(*ledger.Account)) {
		t.Helper()
		try("Charge", name, func(s *snapshot) {
			s.account = func(a ledger.Account) ledger.Account { change(&a); return a }
		})
	}
	request := func(call, name string, change func(*ledger.Request)) {
		t.Helper()
		try(call, name, func(s *snapshot) { s.request = change })
	}
	flipped := func(b []byte, i int) []byte {
		b = slices.Clone(b)
		b[i] ^= 1 << (i % 8)
		return b
	}
	var a ledger.Account
	requests := make(map[string]*ledger.Request)
	err := l.View(t.Context(), &ledger.Job{Accounts: []string{"cards/a"}, Run: func(snap ledger.Snapshot) (_ *ledger.Changes, err error) {
		a, err = snap.Account("cards/a")
		for _, id := range []string{"open", "spent"} {
			r, err2 := snap.Request(id)
			requests[id], err = r, cmp.Or(err, err2)
		}
		return nil, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range a.State {
		account(fmt.Sprint("byte of State, ", i), func(a *ledger.Account) { a.State = flipped(a.State, i) })
	}
	for i := range a.Rules {
		account(fmt.Sprint("byte of Rules, ", i), func(a *ledger.Account) { a.Rules = flipped(a.Rules, i) })
	}
	account("Pruned", func(a *ledger.Account) { a.Pruned++ })
	account("Due", func(a *ledger.Account) { a.Due++ })
	for i := range requests["spent"].Answer {
		request("Charge, replayed", fmt.Sprint("byte of Answer, ", i), func(r *ledger.Request) { r.Answer = flipped(r.Answer, i) })
	}
	for i := range requests["spent"].Content {
		request("Charge, replayed", fmt.Sprint("byte of Content, ", i), func(r *ledger.Request) { r.Content = flipped(r.Content, i) })
	}
	for i := range requests["open"].Spend {
		request("Capture", fmt.Sprint("byte of Spend, ", i), func(r *ledger.Request) { r.Spend = flipped(r.Spend, i) })
	}
	request("Charge, replayed", "ID", func(r *ledger.Request) { r.ID = "open" })
	request("Charge, replayed", "At", func(r *ledger.Request) { r.At++ })
	request("Charge, replayed", "number of accounts", func(r *ledger.Request) { r.Accounts = []string{"cards/a", "cards/b"} })
	request("Charge, replayed", "Spend, none", func(r *ledger.Request) { r.Spend = nil })
	request("Capture", "ID of the spend", func(r *ledger.Request) { r.ID = "spent" })
	request("Capture", "Spend, none", func(r *ledger.Request) { r.Spend = nil })
	request("Capture", "number of accounts", func(r *ledger.Request) { r.Accounts = []string{"cards/a", "cards/a"} })
	t.Logf("%d of %d changes are found", found, all)
}
