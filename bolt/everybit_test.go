package bolt_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/internal/vfs"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// noSync is a file system that syncs nothing. The power stays on in the tests that use it.
type noSync struct{ vfs.OS }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error     { return nil }
func (unsyncedFile) SyncData() error { return nil }

func (n noSync) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	file, err := n.OS.OpenFile(name, flag, perm)
	return unsyncedFile{file}, err
}

func (noSync) SyncDir(string) error { return nil }

func (noSync) Attach(_ vfs.File, db *bbolt.DB) { db.NoSync, db.NoGrowSync = true, true }

// shape is the content of a file whose bits are flipped.
type shape struct {
	name     string
	buckets  int
	keySize  int  // at least, of the buckets
	ledger   bool // the file has a ledger
	accounts int  // in it
	killed   bool // the file needs its journal
}

var shapes = []shape{
	{name: "empty"},
	{name: "small bbolt bucket", buckets: 3},
	{name: "one leaf page", buckets: 20},
	{name: "two levels of pages", buckets: 70},
	{name: "three levels of pages", buckets: 30, keySize: 500},
	{name: "a journal beside it", buckets: 20, killed: true},
	{name: "empty ledger", buckets: 1, ledger: true},
	{name: "ledger with overflow pages", buckets: 5, ledger: true, accounts: 4},
}

// use is a file in use. Each answer is a line of text, so that those of two files can be compared.
type use struct {
	shape
	t     *testing.T
	path  string
	clock *brimtest.Clock
	s     *bolt.Store
	l     *boltledger.Ledger
	lines []string
}

var everyBitTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func (u *use) open() (err error) {
	o := &bolt.Options{Clock: u.clock.Now, PruneEvery: -1, NoJournal: !u.killed} // each call is a commit of the file
	if u.s, err = bolt.Open(u.path, o); err != nil || !u.ledger {
		return err
	}
	if u.l, err = boltledger.New(u.s, &boltledger.Options{Clock: u.clock.Now}); err != nil {
		_ = u.s.Close()
	}
	return err
}

func (u *use) close() error {
	if u.l != nil {
		_ = u.l.Close()
	}
	return u.s.Close()
}

func (u *use) key(i int) string {
	return fmt.Sprintf("%03d%s", i, strings.Repeat("k", max(u.keySize-3, 3)))
}

// say notes an answer. Of an error it notes its class.
func (u *use) say(what string, answer any, err error) {
	switch {
	case errors.Is(err, store.ErrCorrupt):
		answer = "corrupt"
	case err != nil:
		answer = err
	}
	what, _, _ = strings.Cut(what, "kkk") // the end of a key
	u.lines = append(u.lines, fmt.Sprintf("%s: %+v", what, answer))
}

// plain is a state with all its fields as text.
type plain store.State

func plainly(states []store.State) (list []plain) {
	for _, st := range states {
		list = append(list, plain(st))
	}
	return list
}

// limit returns the limit of a bucket. Every second one leaks.
func (u *use) limit(i int) store.Limit {
	return store.Limit{Capacity: 1 << 20, LeakRate: float64(i % 2)}
}

// fill fills buckets from one number to another. Each is a transaction of its own.
func (u *use) fill(from, to, step int) {
	var txns []store.Txn
	for i := from; i < to; i += step {
		txns = append(txns, store.Txn{{Bucket: u.limit(i).For(u.key(i)), Amount: float64(1 + i), Mode: store.IfFits}})
	}
	results, err := u.s.Apply(u.t.Context(), txns...)
	if err != nil {
		u.say("apply", nil, err)
		return
	}
	for i, r := range results {
		u.say("fill "+u.key(from+i*step), plainly(r.States), r.Err)
	}
}

// remove deletes buckets.
func (u *use) remove(from, to, step int) {
	var keys []string
	for i := from; i < to; i += step {
		keys = append(keys, u.key(i))
	}
	u.say("delete", nil, u.s.Delete(u.t.Context(), keys...))
}

// make makes the file. Of a file with a journal, it copies both as a kill would leave them.
func (u *use) make() {
	must(u.t, u.open())
	for i := range 4 { // several commits leave free pages
		u.fill(i*u.buckets/4, (i+1)*u.buckets/4, 1)
	}
	u.remove(0, u.buckets, 7)
	for i := range u.accounts {
		u.spend(i)
	}
	if u.killed {
		dir := u.t.TempDir()
		for _, suffix := range []string{"", kv.LogSuffix} {
			b, err := os.ReadFile(u.path + suffix)
			must(u.t, err)
			must(u.t, os.WriteFile(filepath.Join(dir, "killed.db"+suffix), b, 0o600))
		}
		must(u.t, u.close())
		u.path = filepath.Join(dir, "killed.db")
		return
	}
	must(u.t, u.close())
}

func account(i int) string { return fmt.Sprintf("card:%d", i) }

// spend decides a spend with a hold. The working set of the account fills more than a page.
func (u *use) spend(i int) {
	name := account(i)
	u.say("spend "+name, nil, u.l.Decide(u.t.Context(), &ledger.Job{
		Accounts: []string{name},
		Run: func(s ledger.Snapshot) (*ledger.Changes, error) {
			a, err := s.Account(name)
			if err != nil {
				return nil, err
			}
			seq := int64(len(a.State)) + 1
			id := fmt.Sprintf("%s/%d", name, seq)
			a.Key, a.State = name, append(bytes.Clone(a.State), 's')
			if a.Rules == nil {
				a.Rules = bytes.Repeat([]byte{'r'}, 5000)
			}
			return &ledger.Changes{
				Accounts: []ledger.Account{a},
				Entries: []ledger.Entry{{
					Account: name, Seq: seq, At: s.Now(), Dated: s.Now(), Kind: "authorize", RequestID: id, SpendID: id, Part: seq,
					Amount: 1, Currency: "EUR", Held: 1, Pending: 1, Expires: s.Now() + 1,
				}},
				Requests: []ledger.Request{{
					ID: id, At: s.Now(), Accounts: []string{name}, Content: []byte("c"), Answer: []byte("a"), Spend: []byte("s"),
				}},
				Opened: []ledger.Hold{{Account: name, Expires: s.Now() + 1, SpendID: id}},
			}, nil
		},
	}))
}

// look reads everything. A damaged bucket is missing in a listing, which says so.
func (u *use) look() {
	ctx := u.t.Context()
	listed := make(map[string]store.Entry)
	visited := u.s.Visit(ctx, "", func(e store.Entry) bool { listed[e.Key] = e; return true })
	for i := range 2 * u.buckets {
		states, err := u.s.Read(ctx, store.Bucket{Key: u.key(i)})
		u.say("read "+u.key(i), plainly(states), err)
		if e, ok := listed[u.key(i)]; ok || visited == nil {
			u.say("visit "+u.key(i), plain(e.State), nil)
		} else {
			u.say("visit "+u.key(i), plain{}, err)
		}
		delete(listed, u.key(i))
	}
	u.say("visit", len(listed), nil)
	if u.l == nil {
		return
	}
	keys, next, err := u.l.Accounts(ctx, "", "", 0, 100)
	u.say("accounts", fmt.Sprint(keys, next), err)
	for i := range u.accounts + 1 {
		entries, err := u.l.History(ctx, account(i), ledger.Position{}, 100)
		u.say("history "+account(i), entries, err)
		err = u.l.View(ctx, &ledger.Job{Accounts: []string{account(i)}, Run: func(s ledger.Snapshot) (*ledger.Changes, error) {
			a, err := s.Account(account(i))
			u.say("account "+account(i), a, err)
			held, next, err := s.Holds(account(i), ledger.Hold{}, 1<<62, 100)
			u.say("holds "+account(i), fmt.Sprint(held, next), err)
			request, err := s.Request(account(i) + "/1")
			u.say("request "+account(i), fmt.Sprintf("%+v", request), err)
			return &ledger.Changes{}, nil
		}})
		u.say("view", nil, err)
	}
}

// verify opens the file and verifies it. damage is the answer of Verify, and err that of Open.
func (u *use) verify() (damage, err error) {
	if err := u.open(); err != nil {
		return nil, err
	}
	damage = u.s.Verify(u.t.Context())
	return damage, u.close()
}

// answers uses the file as programs do, and returns all answers.
func (u *use) answers() []string {
	u.lines = nil
	u.clock = brimtest.NewClock(everyBitTime.Add(time.Minute))
	must(u.t, u.open())
	ctx := u.t.Context()
	u.look()
	u.fill(0, u.buckets, 1)
	for i := range u.accounts {
		u.spend(i)
	}
	u.fill(u.buckets, 2*u.buckets, 1) // pages split
	u.look()
	u.remove(1, 2*u.buckets, 3) // pages merge
	u.remove(0, u.buckets/2, 1)
	u.clock.Advance(time.Hour)
	_, err := u.s.Prune(ctx)
	u.say("prune", nil, err)
	if u.l != nil {
		_, err = u.l.PruneRequests(ctx, "", 1<<62)
		u.say("prune requests", nil, err)
	}
	u.look()
	u.say("verify", nil, u.s.Verify(ctx))
	u.say("close", nil, u.close())
	if err := u.open(); err != nil {
		u.say("open again", nil, err)
		return u.lines
	}
	u.look()
	u.say("verify again", nil, u.s.Verify(ctx))
	u.say("close again", nil, u.close())
	return u.lines
}

// compare compares the answers with those of the sound file. If the file has a damaged value, it
// leaves out those that need the value.
func compare(got, want []string, damage error) error {
	damaged := make(map[string]bool) // buckets and accounts that lack changes, because a call has found damage
	for i, line := range got {
		what, answer, _ := strings.Cut(line, ": ")
		subject := what[strings.LastIndexByte(what, ' ')+1:]
		if answer == "corrupt" && damage != nil {
			damaged[subject] = true
		} else if line != want[i] && !damaged[subject] {
			return fmt.Errorf("after the damage %q\n%s; want\n%s", fmt.Sprint(damage), line, want[i])
		}
	}
	for _, listing := range []string{"accounts", "requests", "verify", "again"} {
		delete(damaged, listing)
	}
	if len(got) != len(want) || len(damaged) > 1 {
		return fmt.Errorf("%d answers, want %d; %v are damaged", len(got), len(want), damaged)
	}
	return nil
}

// flips is a file whose bits are flipped.
type flips struct {
	*use
	sound, journal []byte
	want           []string // the answers of the sound file
	hang           *time.Timer
}

// write writes the file with some bits flipped. The test ends if its user is busy for a minute.
func (f *flips) write(bits ...int) {
	file := bytes.Clone(f.sound)
	for _, bit := range bits {
		file[bit/8] ^= 1 << (bit % 8)
	}
	must(f.t, os.WriteFile(f.path, file, 0o600))
	if f.killed {
		must(f.t, os.WriteFile(f.path+kv.LogSuffix, f.journal, 0o600))
	}
	if f.hang != nil {
		f.hang.Stop()
	}
	f.hang = time.AfterFunc(time.Minute, func() { panic(f.name + ", " + place(bits) + ": the file keeps its user busy") })
}

// place names the first of some bits.
func place(bits []int) string {
	bit, page := bits[0], 8*os.Getpagesize()
	return fmt.Sprintf("page %d, byte %d, bit %d", bit/page, bit%page/8, bit%8)
}

// try compares the answers of a file with some bits flipped.
func (f *flips) try(damage error, bits ...int) {
	f.t.Helper()
	f.write(bits...)
	err := compare(f.answers(), f.want, damage)
	switch {
	case err == nil:
	case len(bits) == 1:
		f.t.Fatalf("%s: %v", place(bits), err)
	default:
		for _, bit := range bits {
			f.try(damage, bit)
		}
		f.t.Fatalf("%d bits, each of which does no harm alone: %v", len(bits), err)
	}
}

// tryDamage compares the answers of a file with some bits flipped, each of which alone is the same
// damage. Bits of one value are no more damage together, so their file is tried once.
func (f *flips) tryDamage(damage error, bits []int) {
	f.t.Helper()
	f.write(bits...)
	if together, err := f.verify(); err == nil && together != nil && together.Error() == damage.Error() {
		f.try(damage, bits...)
		return
	}
	for _, bit := range bits {
		f.try(damage, bit)
	}
}

// TestEveryBit flips bits of small files of every shape: a sample of them, or with
// BRIM_EVERY_BIT=1 each of 2.7 million, which takes an hour and needs "-timeout 3h". Open refuses
// the file; or damage to one value shows in Verify and in calls that need the value, and nowhere
// else; or all later calls have the answers of the sound file. Without the check of pages, bbolt
// destroys such a file with a later commit.
//
// Bits that Open and Verify pass are tried together with others of that kind, to save time; and so
// are bits of one value.
func TestEveryBit(t *testing.T) {
	const together = 64
	vfs.Default = noSync{}
	defer func(size int64) { vfs.Default, kv.DefaultSegment = vfs.OS{}, size }(kv.DefaultSegment)
	kv.DefaultSegment = 4 << 10
	number, err := seed.New()
	must(t, err)
	t.Logf("BRIM_SEED=%d", number)
	all := os.Getenv("BRIM_EVERY_BIT") != ""
	tried, refused, alone := 0, 0, 0
	for i, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			u := &use{shape: shape, t: t, path: filepath.Join(t.TempDir(), "sound.db"), clock: brimtest.NewClock(everyBitTime)}
			u.make()
			f := &flips{use: u}
			if f.sound, err = os.ReadFile(u.path); err == nil && u.killed {
				f.journal, err = os.ReadFile(u.path + kv.LogSuffix)
			}
			must(t, err)
			u.path = filepath.Join(memory(t), "flipped.db")
			f.write()
			f.want = u.answers()
			if text := strings.Join(f.want, "\n"); strings.Contains(text, ": corrupt") {
				t.Fatalf("the sound file: %s", text)
			}
			page := 8 * os.Getpagesize()
			bits := 8 * used(t, f.sound)
			r := rand.New(rand.NewPCG(number, uint64(i)))
			var harmless, damaging []int
			var last error // the damage of each of them
			tryDamage := func() {
				if len(damaging) > 0 {
					f.tryDamage(last, damaging)
					damaging = nil
				}
			}
			attempts := seed.Attempts(150, 20_000)
			if all {
				attempts = bits
			}
			for n := range attempts {
				bit := n
				if !all {
					bit = r.IntN(bits)
					if n%2 == 0 { // a flip does most harm at the beginnings of pages
						bit = bit/page*page + r.IntN(8*128)
					}
				}
				f.write(bit)
				damage, err := u.verify()
				tried++
				switch {
				case errors.Is(err, store.ErrCorrupt), errors.Is(err, errors.ErrUnsupported):
					refused++
				case err != nil:
					t.Fatalf("%s: Open or Close answers %v", place([]int{bit}), err)
				case errors.Is(damage, store.ErrCorrupt):
					alone++
					if len(damaging) == together || last != nil && last.Error() != damage.Error() {
						tryDamage()
					}
					damaging, last = append(damaging, bit), damage
				case damage != nil:
					t.Fatalf("%s: Verify answers %v", place([]int{bit}), damage)
				default:
					harmless = append(harmless, bit)
				}
				if len(harmless) == together {
					f.try(nil, harmless...)
					harmless = nil
				}
			}
			if len(harmless) > 0 {
				f.try(nil, harmless...)
			}
			tryDamage()
			f.hang.Stop()
		})
	}
	t.Logf("%d bits: %d refused, %d in a single value, %d that mean nothing", tried, refused, alone, tried-refused-alone)
}

// memory returns a new directory, in memory where the system has one there.
func memory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "brim-bolt-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// used returns the size of the part of a file that has pages in it.
func used(t *testing.T, file []byte) (size int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.db")
	must(t, os.WriteFile(path, file, 0o600))
	db, err := bbolt.Open(path, 0o600, nil)
	must(t, err)
	must(t, db.View(func(tx *bbolt.Tx) error { size = int(tx.Size()); return nil }))
	must(t, db.Close())
	return size
}

// must ends the test if there is an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
