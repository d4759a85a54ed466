package boltledger_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/store"
)

// TestSalvageJournal salvages a file whose ledger has its last changes in the journal, as after a
// kill. With a whole journal nothing is lost. If a change in the journal may be lost, every account
// answers ErrCorrupt until the operator decides: its money may be spent already.
func TestSalvageJournal(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "live.db")
	o, err := openSample(path)
	if err != nil {
		t.Fatal(err)
	}
	usage := make(map[string]int64)
	var older []byte
	for i := range 40 {
		if i == 5 { // a copy of the file as it was once closed
			if err := o.close(); err != nil {
				t.Fatal(err)
			}
			if older, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
			if o, err = openSample(path); err != nil {
				t.Fatal(err)
			}
		}
		d, err := o.b.Charge(t.Context(), requestOf(i))
		if err != nil {
			t.Fatal(err)
		}
		usage[requestOf(i).Account] = d.Remaining[0].Used.Minor
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + ".journal")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.close(); err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndex(log, []byte("request-0039"))
	middle := bytes.Index(log, []byte("request-0020"))
	if last < 0 || middle < 0 || bytes.Contains(file, []byte("request-0039")) {
		t.Fatal("the journal does not have the last requests, or the file has them")
	}
	flip := func(b []byte, at int) []byte {
		b = bytes.Clone(b)
		b[at] ^= 1
		return b
	}
	// The mark stands in the file in one place or more, and the newest of them counts.
	unmarked := bytes.Clone(file)
	for at := 0; ; at++ {
		next := bytes.Index(unmarked[at:], []byte("journal"))
		if next < 0 {
			break
		}
		at += next
		unmarked[at+len("journal")+4] ^= 1
	}
	for i, c := range []struct {
		name          string
		file, journal []byte
		whole         bool
	}{
		{"whole", file, log, true},
		{"missing", file, nil, false},
		{"damaged in the middle", file, flip(log, middle), false},
		{"damaged in its first page", file, flip(log, 30), false},
		{"whole, and the file does not say that it needs one", unmarked, log, false},
		{"that of a newer copy of the file", older, log, false},
	} {
		from, to := filepath.Join(dir, fmt.Sprint(i, ".db")), filepath.Join(dir, fmt.Sprint(i, "-new.db"))
		writeFile(t, from, c.file)
		if c.journal != nil {
			writeFile(t, from+".journal", c.journal)
		}
		r, err := boltfile.ReadRemains(t.Context(), from, time.Second, nil)
		if err != nil {
			t.Fatal(err)
		}
		report, err := boltfile.Salvage(t.Context(), r, to, bolt.Salvor(), boltledger.Salvor(false))
		if err := errors.Join(err, r.Close()); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		o, err := openSample(to)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for account, used := range usage {
			switch u, err := o.b.Remaining(t.Context(), account); {
			case !c.whole && !errors.Is(err, store.ErrCorrupt):
				t.Errorf("%s: %s has %+v, %v; want ErrCorrupt", c.name, account, u, err)
			case c.whole && (err != nil || u[0].Used.Minor != used):
				t.Errorf("%s: %s has %+v, %v; want %d used; %+v", c.name, account, u, err, used, report.Findings)
			}
		}
		r0 := requestOf(39)
		d, err := o.b.Charge(t.Context(), spend.Request{ID: r0.ID, Account: r0.Account, Amount: r0.Amount})
		replayed := err == nil && d.Replayed
		if !replayed && (c.whole || !errors.Is(err, store.ErrCorrupt)) {
			t.Errorf("%s: the last request, sent again: %+v, %v", c.name, d, err)
		}
		if err := o.close(); err != nil {
			t.Error(err)
		}
	}
}
