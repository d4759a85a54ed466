package boltledger_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/store"
)

// sampleTime is the time of all decisions in a sample.
var sampleTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func sampleClock() time.Time { return sampleTime }

// sample is a file with buckets and spends, and the answers that it gives.
type sample struct {
	content   []byte
	levels    map[string]float64
	usage     map[string][]spend.Usage
	histories map[string][]spend.Entry
	decisions map[string]spend.Decision // by ID of the request
}

const (
	sampleBuckets  = 60
	sampleAccounts = 8
)

func bucketKey(i int) string   { return fmt.Sprintf("bucket %03d", i) }
func accountName(i int) string { return fmt.Sprintf("card:%d", i) }

// opened is an open sample.
type opened struct {
	s *bolt.Store
	l *boltledger.Ledger
	b *spend.Budgets
}

func openSample(ctx context.Context, path string) (o *opened, err error) {
	o = &opened{}
	if o.s, err = bolt.Open(path, &bolt.Options{Clock: sampleClock, PruneEvery: -1}); err != nil {
		return nil, err
	}
	if o.l, err = boltledger.New(o.s, &boltledger.Options{Clock: sampleClock}); err == nil {
		o.b, err = spend.New(ctx, o.l, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{
			spend.Lifetime("ever", spend.Money{Minor: 100_000, Currency: "EUR"}).CountsCredits(),
			spend.Rolling("day", spend.Money{Minor: 20_000, Currency: "EUR"}, 24*time.Hour),
		}}, nil)
	}
	if err != nil {
		_ = o.close()
		return nil, err
	}
	return o, nil
}

func (o *opened) close() error {
	var err error
	if o.l != nil {
		err = o.l.Close()
	}
	return errors.Join(err, o.s.Close())
}

func requestOf(i int) spend.Request {
	return spend.Request{
		ID: fmt.Sprintf("request-%04d", i), Account: accountName(i % sampleAccounts),
		Amount: spend.Money{Minor: int64(100 + 37*i%900), Currency: "EUR"},
	}
}

// sampleRequests is the number of requests of each kind: charges, and then holds.
const sampleRequests = 80

func newSample(t *testing.T) *sample {
	t.Helper()
	path, ctx := filepath.Join(t.TempDir(), "sample.db"), t.Context()
	o, err := openSample(ctx, path)
	must(t, err)
	m := &sample{
		levels: map[string]float64{}, usage: map[string][]spend.Usage{}, histories: map[string][]spend.Entry{},
		decisions: map[string]spend.Decision{},
	}
	limit := store.Limit{Capacity: 1000}
	for i := range sampleBuckets {
		key := bucketKey(i)
		m.levels[key] = float64(1 + i)
		if _, err := o.s.Fill(ctx, store.Op{Bucket: limit.For(key), Amount: m.levels[key]}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 * sampleRequests {
		send := o.b.Charge
		if i >= sampleRequests {
			send = o.b.Authorize
		}
		d, err := send(ctx, requestOf(i))
		must(t, err)
		d.Replayed = true
		m.decisions[requestOf(i).ID] = d
		if i >= sampleRequests && i%3 == 0 && d.Approved {
			c := spend.CaptureRequest{
				ID: fmt.Sprintf("capture-%04d", i), HoldID: requestOf(i).ID, Amount: requestOf(i).Amount, Final: true,
			}
			if _, err := o.b.Capture(ctx, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range sampleAccounts {
		name := accountName(i)
		r := spend.Request{ID: "credit of " + name, Account: name, Amount: spend.Money{Minor: 500, Currency: "EUR"}}
		if _, err = o.b.Credit(ctx, r); err != nil {
			t.Fatal(err)
		}
		if m.usage[name], err = o.b.Remaining(ctx, name); err != nil {
			t.Fatal(err)
		}
		if m.histories[name], err = history(ctx, o.b, name); err != nil {
			t.Fatal(err)
		}
	}
	must(t, o.close())
	if m.content, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return m
}

func history(ctx context.Context, b *spend.Budgets, account string) (all []spend.Entry, err error) {
	for e, err := range b.History(ctx, account, nil) {
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// look asks for everything that was stored. It returns the names of all that answers ErrCorrupt,
// and of the buckets that are absent, and fails the test for every wrong answer.
func (m *sample) look(t *testing.T, o *opened, where string) (damaged, absent map[string]bool) {
	t.Helper()
	ctx := t.Context()
	damaged, absent = map[string]bool{}, map[string]bool{}
	corrupt := func(what, name string, err error) bool {
		if err != nil && !errors.Is(err, store.ErrCorrupt) {
			t.Fatalf("%s: %s %s: %v", where, what, name, err)
		}
		if err != nil {
			damaged[what+" "+name] = true
		}
		return err != nil
	}
	for key, level := range m.levels {
		st, err := o.s.Read(ctx, store.Bucket{Key: key})
		switch {
		case corrupt("bucket", key, err):
		case st[0].Capacity == 0 && st[0].Level == 0:
			absent[key] = true
		case st[0].Level != level:
			t.Fatalf("%s: level %v of %q, want %v", where, st[0].Level, key, level)
		}
	}
	for name, want := range m.usage {
		usage, err := o.b.Remaining(ctx, name)
		if d := differ.Fields(usage, want); !corrupt("account", "cards/"+name, err) && d != "" {
			t.Fatalf("%s: account %s:\n%s", where, name, d)
		}
		entries, err := history(ctx, o.b, name)
		d := differ.Fields(entries, m.histories[name])
		if !corrupt("account", "cards/"+name, err) && d != "" && !damaged["account cards/"+name] {
			t.Fatalf("%s: the history of account %s:\n%s", where, name, d)
		}
	}
	for i := range 2 * sampleRequests {
		r := requestOf(i)
		send := o.b.Charge
		if i >= sampleRequests {
			send = o.b.Authorize
		}
		d, err := send(ctx, r)
		if diff := differ.Fields(d, m.decisions[r.ID]); !corrupt("request", r.ID, err) && diff != "" {
			t.Fatalf("%s: the answer to request %s:\n%s", where, r.ID, diff)
		}
	}
	return damaged, absent
}

// liveBytes lists the parts of a file that its newest commit uses: the meta pages, and all pages
// that are in use.
func liveBytes(t *testing.T, content []byte) (pages []int) {
	t.Helper()
	size := os.Getpagesize()
	for i := range len(content) / size {
		p := content[i*size:]
		if i < 2 || binary.NativeEndian.Uint64(p) == uint64(i) {
			pages = append(pages, i)
		}
	}
	return pages
}

// isOne reports whether one damaged value explains all damage: that of a bucket, of an account,
// or of a request, which an account with an open hold of it reads, too.
func isOne(damaged map[string]bool) bool {
	if len(damaged) != 2 {
		return len(damaged) < 2
	}
	account, number := -1, -1
	for name := range damaged {
		_, _ = fmt.Sscanf(name, "account cards/card:%d", &account)
		_, _ = fmt.Sscanf(name, "request request-%d", &number)
	}
	return account >= 0 && number >= sampleRequests && number%sampleAccounts == account
}

func writeFile(t *testing.T, path string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(path, content, 0o600))
}

// TestFlippedBytes flips bytes all over a file with buckets and spends. Every answer is right, or
// ErrCorrupt for one bucket, account or request alone, or Open refuses the file and names the
// remedy.
func TestFlippedBytes(t *testing.T) {
	m := newSample(t)
	flips := 60
	switch {
	case os.Getenv("BRIM_TORTURE") == "1":
		flips = 400
	case testing.Short():
		flips = 20
	}
	pages, size := liveBytes(t, m.content), os.Getpagesize()
	r := rand.New(rand.NewPCG(7, 8))
	dir := t.TempDir()
	at := filepath.Join(dir, "flipped.db")
	refused, alone, intact := 0, 0, 0
	for i := range flips {
		offset := pages[r.IntN(len(pages))] * size
		if i%2 == 0 {
			offset += r.IntN(300) // headers
		} else {
			offset += r.IntN(size)
		}
		if i%10 == 0 {
			offset = r.IntN(2)*size + r.IntN(80) // meta pages
		}
		flipped := bytes.Clone(m.content)
		flipped[offset] ^= byte(1 + r.IntN(255))
		where := fmt.Sprintf("byte %d of page %d, now %#x", offset%size, offset/size, flipped[offset])
		writeFile(t, at, flipped)
		o, err := openSample(t.Context(), at)
		switch {
		case err == nil:
			damaged, absent := m.look(t, o, where)
			if !isOne(damaged) || len(absent) > 0 {
				t.Fatalf("%s: %v are damaged, and %v absent; want at most one damaged", where, damaged, absent)
			}
			if len(damaged) == 0 {
				intact++
			} else {
				alone++
			}
			must(t, o.close())
		case errors.Is(err, store.ErrCorrupt) && strings.Contains(err.Error(), "restore the last backup"):
			refused++
		default:
			t.Fatalf("%s: error %v, want ErrCorrupt and the remedy", where, err)
		}
		must(t, os.Remove(at))
	}
	t.Logf("%d flips: %d refused, %d damaged alone, %d in bytes that mean nothing", flips, refused, alone, intact)
	if refused < flips/20 || alone < flips/40 || intact < flips/20 {
		t.Error("the test has not tested much")
	}
}

// TestPruneDamaged: Prune prunes all other accounts, and tells of the damage at the end.
func TestPruneDamaged(t *testing.T) {
	m := newSample(t)
	at := filepath.Join(t.TempDir(), "damaged.db")
	damaged := bytes.Clone(m.content)
	for _, page := range liveBytes(t, damaged)[2:] {
		p := damaged[page*os.Getpagesize():][:os.Getpagesize()]
		if i := bytes.Index(p, stateKey(1)); i > 0 && binary.NativeEndian.Uint16(p[8:]) == 2 {
			p[i+20]++
		}
	}
	writeFile(t, at, damaged)
	s, err := bolt.Open(at, &bolt.Options{PruneEvery: -1})
	must(t, err)
	defer func() { _ = s.Close() }()
	later := func() time.Time { return sampleTime.Add(210 * 24 * time.Hour) }
	l, err := boltledger.New(s, &boltledger.Options{Clock: later})
	must(t, err)
	defer func() { _ = l.Close() }()
	b, err := spend.Open(t.Context(), l, "cards", nil)
	must(t, err)
	done, err := b.Prune(t.Context())
	if !errors.Is(err, store.ErrCorrupt) || done.Expired == 0 || done.Requests == 0 {
		t.Errorf("%+v, %v; want expired holds, requests and ErrCorrupt", done, err)
	}
	expired := int64(0)
	for i := 1; i < sampleAccounts; i++ {
		entries, err := history(t.Context(), b, accountName(i))
		must(t, err)
		for _, e := range entries {
			if e.Kind == "expire" && e.At.Equal(later()) {
				expired++
			}
		}
	}
	if expired != done.Expired {
		t.Errorf("Prune has ended %d holds of accounts that are intact; want %d", expired, done.Expired)
	}
}
