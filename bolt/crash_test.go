package bolt

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/paging"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
)

const (
	crashCallers = 8
	crashKeys    = 40
)

// childLoad fills from several goroutines until it is killed. It prints a line "? key" before
// each fill and "! key" after its acknowledgement. Each line is one write to the system, so
// printed lines survive the kill.
func childLoad(path string) error {
	s, err := Open(path, nil)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for c := range crashCallers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(c)))
			for {
				key := fmt.Sprintf("key:%02d", r.IntN(crashKeys))
				fmt.Printf("? %s\n", key)
				if _, err := s.Fill(context.Background(), op(steady, key, 1, store.Always)); err != nil {
					fmt.Println("error:", err)
					os.Exit(1)
				}
				fmt.Printf("! %s\n", key)
			}
		})
	}
	wg.Wait()
	return nil
}

func childCommand(role, path string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childRole+"="+role, "BRIM_BOLT_TEST_PATH="+path,
		"GORACE=atexit_sleep_ms=0") // the race detector would have each child sleep for a second
	return cmd
}

// TestKill kills a program at random moments of its load. For each bucket and over all runs, all
// acknowledged fills must be stored, and at most the fills in flight besides: acknowledged <=
// stored <= acknowledged + in flight.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the kills")
	}
	t.Parallel()
	kills := seed.Attempts(8, 1000)
	path := filepath.Join(t.TempDir(), "limits.db")
	least, most := make(map[string]int), make(map[string]int)
	var acknowledged, unknown int
	for range kills {
		asked, acked := killOnce(t, path)
		for key, n := range asked {
			most[key] += n
			least[key] += acked[key]
			acknowledged += acked[key]
			unknown += n - acked[key]
		}
		s := openAt(t, path, nil)
		entries, err := paging.All(context.Background(), s, "")
		if err != nil {
			t.Fatal(err)
		}
		stored := make(map[string]int)
		for _, e := range entries {
			stored[e.Key] = int(e.Level)
		}
		for key := range most {
			if n := stored[key]; n < least[key] || n > most[key] {
				t.Fatalf("%s: %d fills are stored; %d were acknowledged, and %d more were in flight",
					key, n, least[key], most[key]-least[key])
			}
			// The fills in flight are decided now.
			least[key], most[key] = stored[key], stored[key]
		}
		closeStore(t, s)
	}
	t.Logf("%d kills: %d fills acknowledged, 0 lost; %d were in flight", kills, acknowledged, unknown)
	if acknowledged < kills*10 {
		t.Errorf("only %d fills were acknowledged in %d runs: the test has not tested much", acknowledged, kills)
	}
}

// killOnce starts the load and kills it. Mostly it waits for up to 200 lines and some
// microseconds more, so a slow machine gets as far as a fast one. Now and then it kills the
// program while it starts.
func killOnce(t *testing.T, path string) (asked, acked map[string]int) {
	t.Helper()
	asked, acked = make(map[string]int), make(map[string]int)
	cmd := childCommand("load", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = cmd.Process.Kill() }
	defer kill() // does nothing once it is dead
	last, delay := rand.IntN(200), time.Duration(rand.IntN(2000))*time.Microsecond
	if rand.IntN(10) == 0 {
		defer time.AfterFunc(5*delay, kill).Stop()
	}
	said := 0
	for lines := bufio.NewScanner(out); lines.Scan(); said++ {
		if said == last {
			defer time.AfterFunc(delay, kill).Stop()
		}
		sign, key, _ := strings.Cut(lines.Text(), " ")
		switch sign {
		case "?":
			asked[key]++
		case "!":
			acked[key]++
		default:
			t.Fatalf("the program printed %q", lines.Text())
		}
	}
	_ = cmd.Wait()
	return asked, acked
}
