package brim_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/store"
)

// The worked case: a queue of 5 per second that keeps nothing for longer than 2 seconds, and 20 arrivals 25 ms apart.
var worked = brim.Smooth(5, 2*time.Second)

const (
	arrivals = 20
	apart    = 25 * time.Millisecond
)

// arrival is what became of one.
type arrival struct {
	accepted bool
	turn     time.Duration // since start, where accepted
	retry    time.Duration // where refused
}

// workedCase is what becomes of them, from the definition: the queue is a list of turns. It is computed in whole milliseconds.
func workedCase() (want []arrival) {
	const period, depth = 200, 10 // ms between turns; places
	free := 0                     // the end of the last turn
	for k := range arrivals {
		now := 25 * k
		queued := max(0, free-now) // ms of work
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
			t.Errorf("arrival %d: accepted %v with turn %v; want %v, %v", k+1, got[k].accepted, got[k].turn, want.accepted, want.turn)
		case !want.accepted && got[k].retry != want.retry:
			t.Errorf("arrival %d: refused for %v; want %v", k+1, got[k].retry, want.retry)
		}
		if got[k].accepted {
			if n := len(accepted); got[k].turn != time.Duration(n)*200*time.Millisecond {
				t.Errorf("arrival %d: turn at %v; turns are 200 ms apart and this is number %d", k+1, got[k].turn, n)
			}
			accepted = append(accepted, k+1)
		}
	}
	// Ten places are not ten arrivals: what leaks meanwhile makes room for the 11th, and for the 17th.
	if want := fmt.Sprint([]int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 17}); fmt.Sprint(accepted) != want {
		t.Errorf("accepted %v; want %v", accepted, want)
	}
}

func TestWorkedCase(t *testing.T) {
	onEachBackend(t, func(t *testing.T, s store.Store, clock *ticking) {
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

// The same, with every other arrival in another process.
func TestWorkedCaseInTwoProcesses(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t, pool)
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
				t.Errorf("a process ended with %v", err)
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
			t.Fatalf("a process answered %q, %v", line, err)
		}
		a.turn, a.retry = time.Duration(turn), time.Duration(retry)
		got = append(got, a)
	}
	checkWorked(t, got)
}
