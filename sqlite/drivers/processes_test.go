package drivers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/sqliteledger"
	"github.com/brimgo/brim/sqlite"
	"github.com/brimgo/brim/store"
)

// child is the environment variable with the path of a child's database.
const child = "BRIM_SQLITE_CHILD"

// looker is that of a process which prints the level of the bucket "a", and closes the database.
const looker = "BRIM_SQLITE_LOOKER"

// Main runs the tests of a driver, or a process that they have started.
func Main(m *testing.M, d Driver) {
	err := error(nil)
	switch path, looks := os.Getenv(child), os.Getenv(looker); {
	case path != "":
		err = d.work(path)
	case looks != "":
		err = d.look(looks)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const (
	callers  = 16    // of each process, half of them of the ledger
	most     = 2_000 // units that a process acknowledges before it is killed
	counters = 5     // keys, and accounts
)

var big = store.Limit{Capacity: 1 << 40}

func counter(i int) string { return "counter:" + strconv.Itoa(i) }

// budget approves everything. New applies the same rules in each process.
func budget() spend.Budget {
	return spend.Budget{Name: "kills", Currency: "EUR", Rules: []spend.Rule{spend.Rolling("year", money(1<<40), 365*24*time.Hour)}}
}

func money(minor int64) spend.Money { return spend.Money{Minor: minor, Currency: "EUR"} }

// work fills and charges until it is killed, and writes a line for each acknowledged one.
func (d Driver) work(path string) error {
	db, err := d.open(path, "5000", "FULL")
	if err != nil {
		return err
	}
	s, err := sqlite.New(context.Background(), db, &sqlite.Options{LockTimeout: 2 * time.Minute})
	if err != nil {
		return err
	}
	l, err := sqliteledger.New(context.Background(), s, nil)
	if err != nil {
		return err
	}
	b, err := spend.New(context.Background(), l, budget(), nil)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	failed := make(chan error)
	for n := range callers {
		go func() {
			for {
				var err error
				k := rand.IntN(counters)
				if n%2 == 0 {
					_, err = s.Fill(context.Background(), store.Op{Bucket: big.For(counter(k)), Amount: 1})
				} else {
					_, err = b.Charge(context.Background(), spend.Request{ID: strconv.FormatUint(rand.Uint64(), 36), Account: counter(k), Amount: money(1)})
				}
				if err != nil {
					failed <- err
					return
				}
				mu.Lock()
				fmt.Println(n%2, k)
				mu.Unlock()
			}
		}()
	}
	return <-failed
}

// look prints the level of the bucket "a".
func (d Driver) look(path string) error {
	db, err := d.open(path, "5000", "FULL")
	if err != nil {
		return err
	}
	var level float64
	err = db.QueryRow(`SELECT level FROM brim_buckets WHERE key = 'a'`).Scan(&level)
	fmt.Println(level)
	_, checkpoint := db.Exec(`PRAGMA wal_checkpoint`)
	return errors.Join(err, checkpoint, db.Close())
}

// kills lets three processes fill and charge on one file, and kills one of them again and again.
// Each acknowledged unit counts, and no more than those in flight were added.
func kills(t *testing.T, d Driver) {
	h := harness{Driver: d, full: true}
	path := filepath.Join(t.TempDir(), "app.db")
	db := h.database(t, path)
	s := h.over(t, db, path, nil)
	l, err := sqliteledger.New(t.Context(), s.Store, nil)
	must(t, err)
	b, err := spend.New(t.Context(), l, budget(), nil)
	must(t, err)

	var mu sync.Mutex
	var acknowledged [2][counters]int64
	total, killed := int64(0), int64(0)
	enough := int64(seed.Attempts(5_000, 100_000))
	run := func() {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), child+"="+path)
		var complaints strings.Builder
		cmd.Stderr = &complaints
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Error(err)
			return
		}
		left := 1 + rand.IntN(most)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var of, k int
			if n, _ := fmt.Sscan(lines.Text(), &of, &k); n < 2 {
				continue // the last line of a killed process
			}
			mu.Lock()
			acknowledged[of][k]++
			total++
			mu.Unlock()
			if left--; left == 0 { // a time would end a process on a busy machine before it has begun
				_ = cmd.Process.Kill()
			}
		}
		_ = cmd.Wait()
		if text := complaints.String(); text != "" {
			t.Error(text)
		}
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for more := true; more && !t.Failed(); {
				run()
				mu.Lock()
				killed++
				more = total < enough
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	stored, found := int64(0), [2][counters]int64{}
	for k := range counters {
		states, err := s.Read(t.Context(), big.For(counter(k)))
		must(t, err)
		usage, err := b.Remaining(t.Context(), counter(k))
		must(t, err)
		must(t, b.Verify(t.Context(), counter(k)))
		found[0][k], found[1][k] = int64(states[0].Level), usage[0].Used.Minor
		for of := range found {
			stored += found[of][k]
			if found[of][k] < acknowledged[of][k] {
				t.Errorf("counter %d has %d units, and %d were acknowledged", k, found[of][k], acknowledged[of][k])
			}
		}
	}
	if stored > total+killed*callers {
		t.Errorf("%d units are stored, %d were acknowledged, and %d were in flight at most", stored, total, killed*callers)
	}
	var sound string
	must(t, db.QueryRow("PRAGMA integrity_check").Scan(&sound))
	if sound != "ok" {
		t.Error(sound)
	}
	t.Logf("%d processes were killed; %d units were acknowledged, and %d are stored", killed, total, stored)
}
