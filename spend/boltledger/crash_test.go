package boltledger_test

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
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/internal/spendload"
	"github.com/brimgo/brim/spend/ledger"
)

// childEnv names an environment variable. Its value is the path of a file and the number of the
// first request to send. If it is set, this test binary runs child instead of the tests. With
// cancelEnv it runs cancelingChild, with moveEnv movingChild, and the number is that of a round.
const (
	childEnv  = "BRIM_BOLTLEDGER_TEST_CHILD"
	cancelEnv = "BRIM_BOLTLEDGER_TEST_CANCEL"
	moveEnv   = "BRIM_BOLTLEDGER_TEST_MOVE"
	// linesEnv has the number of lines after which child kills itself, and the delay in
	// nanoseconds.
	linesEnv = "BRIM_BOLTLEDGER_TEST_LINES"
)

func TestMain(m *testing.M) {
	kv.DefaultSegment = 16 << 10 // segments of the write-ahead log fill soon, and a large batch does not fit in one
	for env, run := range map[string]func(path, number string) error{childEnv: child, cancelEnv: cancelingChild, moveEnv: movingChild} {
		if v := os.Getenv(env); v != "" {
			path, number, _ := strings.Cut(v, " ")
			if err := run(path, number); err != nil {
				fmt.Println("error:", err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

// openBoth opens the store in a file, and its ledger.
func openBoth(path string, o *bolt.Options) (s *bolt.Store, l *boltledger.Ledger, err error) {
	var never bolt.Options
	if o != nil {
		never = *o
	}
	never.PruneEvery = -1 // some tests leave a store behind as a kill does
	if s, err = bolt.Open(path, &never); err == nil {
		l, err = boltledger.New(s, nil)
	}
	return s, l, err
}

// untilKilled runs a child, has line take each line that the child prints, and kills the child a
// moment after some lines, or before that if early is true.
func untilKilled(t *testing.T, r *rand.Rand, env, value string, early bool, line func(string)) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	// Most kills wait for a random number of lines, so a fast machine kills the program as often as
	// a slow one does. Early ones come while the program opens the file.
	after, delay := r.IntN(100), r.Int64N(int64(2*time.Millisecond))
	cmd.Env = append(os.Environ(), env+"="+value, linesEnv+"="+fmt.Sprint(after, " ", delay))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	kill := time.AfterFunc(time.Hour, func() { _ = cmd.Process.Kill() })
	if early {
		kill.Reset(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
	}
	lines := bufio.NewScanner(out)
	for left := after; lines.Scan(); left-- {
		if left == 0 {
			kill.Reset(time.Duration(delay))
		}
		line(lines.Text())
	}
	kill.Stop()
	_ = cmd.Wait()
}

var once = spendload.NewOnce()

// child sends requests from many goroutines, beginning with the given number, and prints each
// answer. Each line is one write to the system, so printed lines survive a kill. The program does
// not rely on its parent for the kill: it may be done before a busy parent has read its lines.
func child(path, from string) error {
	start, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		return err
	}
	_, l, err := openBoth(path, &bolt.Options{NoVerify: true})
	if err != nil {
		return err
	}
	b, err := once.Budgets(context.Background(), l)
	if err != nil {
		return err
	}
	var after, delay int64
	if _, err := fmt.Sscan(os.Getenv(linesEnv), &after, &delay); err != nil {
		return err
	}
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	var next, printed atomic.Int64
	next.Store(start - 1)
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
				if printed.Add(1) == after+1 {
					time.AfterFunc(time.Duration(delay), func() { _ = self.Kill() })
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// TestExactlyOnceUnderKills kills a program at random moments. The program then starts again and
// sends all unanswered requests once more. Each request is sent at least three times. It must have
// one effect, and the ledger must agree with every answer.
func TestExactlyOnceUnderKills(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the kills")
	}
	path := filepath.Join(t.TempDir(), "spend.db")
	answers := make(map[int]string)
	r := rand.New(rand.NewPCG(spendload.Seed(t), 3))
	kills, from := 0, 0
	for ; from < once.Sends(); kills++ {
		untilKilled(t, r, childEnv, fmt.Sprint(path, " ", from), kills%8 == 7, func(line string) {
			var n int
			var answer string
			if _, err := fmt.Sscan(line, &n, &answer); err != nil {
				t.Fatalf("the program printed %q", line)
			}
			if answers[n] != "" && answers[n] != answer {
				t.Fatalf("send %d was answered %s, and after a kill %s", n, answers[n], answer)
			}
			answers[n] = answer
		})
		for answers[from] != "" {
			from++
		}
	}
	s, l, err := openBoth(path, nil) // Open reads the whole file and verifies its checksums
	must(t, err)
	defer s.Close()
	defer l.Close()
	once.Check(t, l, answers)
	t.Logf("%d kills", kills)
	if kills < 10 {
		t.Errorf("the program was killed %d times; want at least 10", kills)
	}
	_, _, err = s.Compact(t.Context())
	must(t, err)
	once.Check(t, l, answers) // a compaction keeps the ledger
}

func TestRaces(t *testing.T) {
	h := harness(t)
	spendload.Races(t, []ledger.Ledger{h.New(t, time.Now), h.New(t, time.Now)})
}

func TestManyExpired(t *testing.T) {
	h := harness(t)
	spendload.Expired(t, func(clock func() time.Time) ledger.Ledger { return h.New(t, clock) })
}

// cancelingChild authorizes until it is killed, and cancels some of its requests.
func cancelingChild(path, number string) error {
	round, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	_, l, err := openBoth(path, &bolt.Options{NoVerify: true})
	if err != nil {
		return err
	}
	b, err := spendload.Cancels(context.Background(), l)
	if err != nil {
		return err
	}
	spendload.AuthorizeUntilKilled(b, round, true)
	return nil
}

// TestCancelAfterKill kills a program that authorizes and cancels, and cancels all of its requests
// in the next one. No money stays held, a cancellation that was answered is kept, and no request
// has an effect afterwards.
func TestCancelAfterKill(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the kills")
	}
	path := filepath.Join(t.TempDir(), "spend.db")
	r := rand.New(rand.NewPCG(spendload.Seed(t), 5))
	never, open, canceled := 0, 0, 0
	for round := range seed.Attempts(20, 300) {
		answered := make(map[int]bool) // by request, whether its cancellation was
		untilKilled(t, r, cancelEnv, fmt.Sprint(path, " ", round), false, func(line string) {
			n, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatalf("the program printed %q", line)
			}
			answered[max(n, -n)] = n < 0
		})
		s, l, err := openBoth(path, nil)
		must(t, err)
		b, err := spendload.Cancels(t.Context(), l)
		must(t, err)
		for n, was := range answered {
			request := spendload.Authorization(round, n)
			d, err := b.Cancel(t.Context(), request.ID, request.Account)
			if err != nil || !d.Approved || !d.Canceled || was && !d.Replayed {
				t.Errorf("cancel of %s, which was answered: %t: %+v, %v", request.ID, was, d, err)
			}
			switch {
			case d.Replayed:
				canceled++
			case d.Amount.Minor == 0:
				never++
			default:
				open++
			}
			if d, err := b.Authorize(t.Context(), request); err != nil || d.Approved || !d.Canceled {
				t.Errorf("a canceled request that is sent again: %+v, %v", d, err)
			}
		}
		spendload.Undone(t, b)
		must(t, errors.Join(l.Close(), s.Close()))
	}
	t.Logf("the programs were killed before %d decisions, between %d and their cancellations, and after %d of these", never, open, canceled)
	if never == 0 || open == 0 || canceled == 0 {
		t.Error("the test has not tested much")
	}
}

// movingChild charges and moves an account until it is killed.
func movingChild(path, number string) error {
	round, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	_, l, err := openBoth(path, &bolt.Options{NoVerify: true})
	if err != nil {
		return err
	}
	b, err := spendload.Movers(context.Background(), l)
	if err != nil {
		return err
	}
	spendload.MoveUntilKilled(b, round)
	return nil
}

// TestMoveAfterKill kills a program that charges an account and moves it. The account has moved
// wholly or not at all, each time, and no charge is lost or has begun another account.
func TestMoveAfterKill(t *testing.T) {
	if testing.Short() {
		t.Skip("-short leaves out the kills")
	}
	path := filepath.Join(t.TempDir(), "spend.db")
	r := rand.New(rand.NewPCG(spendload.Seed(t), 7))
	charges, move := int64(0), 0
	for round := range seed.Attempts(10, 100) {
		untilKilled(t, r, moveEnv, fmt.Sprint(path, " ", round), false, func(line string) {
			if line == "c" {
				charges++
			} else if _, err := fmt.Sscan(line, new(string), &move); err != nil {
				t.Fatalf("the program printed %q", line)
			}
		})
		if charges == 0 {
			continue
		}
		s, l, err := openBoth(path, nil)
		must(t, err)
		b, err := spendload.Movers(t.Context(), l)
		must(t, err)
		spendload.Moved(t, l, b, charges, move)
		must(t, errors.Join(l.Close(), s.Close()))
	}
	t.Logf("%d charges and the move to card %d were answered", charges, move)
	if charges == 0 || move == 0 {
		t.Error("the test has not tested much")
	}
}
