package brim_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/brimtest"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// childEnv names the environment variable that makes this test binary a child process of
// TestTurnsInTwoProcesses. Its value is a connection string, a space and a schema.
const childEnv = "BRIM_TEST_SHAPER_CHILD"

// The queue of the worked case releases 5 units per second and keeps none longer than 2
// seconds. There are 20 arrivals 25 ms apart.
var worked = brim.Smooth(5, 2*time.Second)

const (
	arrivals = 20
	apart    = 25 * time.Millisecond
)

// arrival is the outcome of one arrival.
type arrival struct {
	accepted bool
	turn     time.Duration // since start, if accepted
	retry    time.Duration // RetryAfter, if refused
}

// workedCase computes the outcomes from the definition of the queue as a list of turns, in
// whole milliseconds.
func workedCase() (want []arrival) {
	const period, depth = 200, 10 // ms between turns; places
	free := 0                     // end of the last turn, ms
	for k := range arrivals {
		now := 25 * k
		queued := max(0, free-now) // ms
		if queued+period <= depth*period {
			turn := now + queued
			free = turn + period
			want = append(want, arrival{accepted: true, turn: time.Duration(turn) * time.Millisecond})
			continue
		}
		want = append(want, arrival{retry: time.Duration(queued+period-depth*period) * time.Millisecond})
	}
	return want
}

func checkWorked(t *testing.T, got []arrival) {
	t.Helper()
	var accepted []int
	for k, want := range workedCase() {
		switch {
		case got[k].accepted != want.accepted, want.accepted && got[k].turn != want.turn:
			t.Errorf("arrival %d: accepted %v with turn %v; want %v, %v",
				k+1, got[k].accepted, got[k].turn, want.accepted, want.turn)
		case !want.accepted && got[k].retry != want.retry:
			t.Errorf("arrival %d: RetryAfter %v; want %v", k+1, got[k].retry, want.retry)
		}
		if got[k].accepted {
			if n := len(accepted); got[k].turn != time.Duration(n)*200*time.Millisecond {
				t.Errorf("arrival %d: turn at %v; want turn %d of 200 ms", k+1, got[k].turn, n)
			}
			accepted = append(accepted, k+1)
		}
	}
	// The queue has ten places. The leak meanwhile makes room for the 11th arrival and for the
	// 17th.
	if want := fmt.Sprint([]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 17}); fmt.Sprint(accepted) != want {
		t.Errorf("accepted arrivals %v; want %v", accepted, want)
	}
}

func TestTurns(t *testing.T) {
	onEachBackend(t, func(t *testing.T, s store.Store, clock *brimtest.Clock) {
		sh := shaper(t, s, 0)
		var got []arrival
		for range arrivals {
			r, err := sh.Reserve(t.Context(), worked.For("k"), 1)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, arrival{r.State.Accepted, r.Turn().Sub(start), r.State.RetryAfter})
			clock.Advance(apart)
		}
		checkWorked(t, got)
	})
}

// TestTurnsInTwoProcesses lets two processes share the queue over PostgreSQL. Each takes every
// other arrival.
func TestTurnsInTwoProcesses(t *testing.T) {
	schema := migrated(t)
	var in [2]io.WriteCloser
	var out [2]*bufio.Reader
	for i := range 2 {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), childEnv+"="+pgtest.URL(t)+" "+schema)
		cmd.Stderr = os.Stderr
		if in[i], err = cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		out[i] = bufio.NewReader(stdout)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in[i].Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("a child process ended with %v", err)
			}
		})
	}
	var got []arrival
	for k := range arrivals {
		if _, err := fmt.Fprintln(in[k%2], (time.Duration(k) * apart).Microseconds()); err != nil {
			t.Fatal(err)
		}
		line, err := out[k%2].ReadString('\n')
		var a arrival
		var turn, retry int64
		if _, e := fmt.Sscan(line, &a.accepted, &turn, &retry); err != nil || e != nil {
			t.Fatalf("a child process answered %q, %v", line, err)
		}
		a.turn, a.retry = time.Duration(turn), time.Duration(retry)
		got = append(got, a)
	}
	checkWorked(t, got)
}

// child reserves one unit of the worked case's bucket for each line of standard input, which is
// the time of the arrival in microseconds since start. It prints whether the reservation was
// accepted, its turn and its RetryAfter, both in nanoseconds.
func child(url, schema string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	clock := newClock()
	s, err := postgres.New(pool, &postgres.Options{Schema: schema, Clock: clock.Now})
	if err != nil {
		return err
	}
	defer s.Close()
	sh, err := brim.NewShaper(brim.New(s, nil), nil)
	if err != nil {
		return err
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var us int64
		if _, err := fmt.Sscan(in.Text(), &us); err != nil {
			return err
		}
		clock.Set(start.Add(time.Duration(us) * time.Microsecond))
		r, err := sh.Reserve(ctx, worked.For("k"), 1)
		if err != nil {
			return err
		}
		fmt.Println(r.State.Accepted, r.Turn().Sub(start).Nanoseconds(), r.State.RetryAfter.Nanoseconds())
	}
	return in.Err()
}
