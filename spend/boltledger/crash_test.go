package boltledger_test

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
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
)

// childEnv, in the environment, makes this test binary a program that spends and can be killed: a
// file, and the number of the first request to send.
const childEnv = "BRIM_BOLTLEDGER_TEST_CHILD"

func TestMain(m *testing.M) {
	if v := os.Getenv(childEnv); v != "" {
		path, from, _ := strings.Cut(v, " ")
		if err := child(path, from); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var once = spendload.Once{Requests: 10_000, Times: 3}

// child sends requests from one on, from many goroutines, and prints each answer: a line is one
// write of the system, so what was printed survives a kill.
func child(path, from string) error {
	var next atomic.Int64
	var start int64
	if _, err := fmt.Sscan(from, &start); err != nil {
		return err
	}
	next.Store(start - 1)
	s, err := bolt.Open(path, &bolt.Options{NoVerify: true})
	if err != nil {
		return err
	}
	l, err := boltledger.New(s, nil)
	if err != nil {
		return err
	}
	b, err := once.Budgets(l)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for n := int(next.Add(1)); n < once.Sends(); n = int(next.Add(1)) {
				answer, err := once.Send(context.Background(), b, n)
				if err != nil {
					fmt.Println("error:", err)
					os.Exit(1)
				}
				fmt.Println(n, answer)
			}
		})
	}
	wg.Wait()
	return nil
}

// A program that is killed at any moment and started again sends what it has no answer to once
// more: 10,000 requests, each sent three times and more, have one effect each, and every answer
// that was given holds.
func TestExactlyOnceUnderKills(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spend.db")
	answers := make(map[int]string)
	kills, from := 0, 0
	for ; from < once.Sends(); kills++ {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", childEnv, path, from))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(time.Duration(30+rand.IntN(120))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n int
			var answer string
			if _, err := fmt.Sscan(lines.Text(), &n, &answer); err != nil {
				t.Fatalf("the program said %q", lines.Text())
			}
			if answers[n] != "" && answers[n] != answer {
				t.Fatalf("send %d was answered %s, and after a kill %s", n, answers[n], answer)
			}
			answers[n] = answer
		}
		kill.Stop()
		_ = cmd.Wait()
		for answers[from] != "" {
			from++
		}
	}
	s, err := bolt.Open(path, nil) // this reads the whole file, and compares its checksums
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := boltledger.New(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	once.Check(t, l, answers)
	t.Logf("%d kills", kills)
	if kills < 10 {
		t.Errorf("the program was killed %d times: the test has not tested much", kills)
	}
	compacted(t, s, l, answers)
}

// compacted checks that compacting the file keeps the ledger.
func compacted(t *testing.T, s *bolt.Store, l ledger.Ledger, answers map[int]string) {
	t.Helper()
	if _, _, err := s.Compact(context.Background()); err != nil {
		t.Fatal(err)
	}
	once.Check(t, l, answers)
}

func TestRaces(t *testing.T) {
	h := harness(t)
	spendload.Races(t, []ledger.Ledger{h.New(t, time.Now), h.New(t, time.Now)})
}
