package lin

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/brimgo/brim/lab/internal/child"
	"github.com/brimgo/brim/lab/internal/history"
)

// stops are faults in which something stands still: the server, one of its processes, or a client
// whose transaction holds rows locked. Meanwhile, every other call must get an answer.
var stops = []fault{stopServer, stopServer, stopBackend, stopClient(continued), stopClient(killedClient), stopClient(ended)}

// hasty is the StatementTimeout of stores that meet a stop. No other call ends by it, also on a
// slow machine: nobody counts the calls that become unknown outside of faults.
const hasty = 2 * time.Second

func stopServer(w *remote, b *blow) error {
	b.soon()
	err := w.place.server.Signal(syscall.SIGSTOP)
	return errors.Join(err, b.land(), w.place.server.Signal(syscall.SIGCONT))
}

// stopBackend stops the process of one connection.
func stopBackend(w *remote, b *blow) error {
	fit, err := processes(w.place.server, clientTitle)
	if err != nil {
		return err
	}
	pid := fit[b.r.IntN(len(fit))]
	signal := func(s syscall.Signal) error {
		if err := syscall.Kill(pid, s); !errors.Is(err, syscall.ESRCH) { // it may have ended
			return err
		}
		return nil
	}
	b.soon()
	err = signal(syscall.SIGSTOP)
	return errors.Join(err, b.land(), signal(syscall.SIGCONT))
}

// ending is the end of a client's stop.
type ending string

// The endings.
const (
	continued    ending = "continued" // it goes on before the server has ended its transaction
	killedClient ending = "killed"    // before the server has ended its transaction
	ended        ending = "ended"     // it goes on after the server has ended its transaction
)

// stopClient stops a client, a process of its own, while its transaction holds rows locked. The
// rows stay locked until the client goes on or dies, or the server ends the transaction after the
// client's StatementTimeout.
func stopClient(how ending) fault {
	return func(w *remote, b *blow) (err error) {
		if b.h.reserve(1) == 0 {
			return nil
		}
		defer b.h.free(1)
		c := &stoppable{remote: w, b: b, name: "stopped-" + w.place.name()}
		if err := c.start(how); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.end()) }()
		// About others: on accounts that it remembers, a ledger decides while it holds no rows.
		warm, stuck := request(fills(2, 3)), request(fills(0, 1))
		if w.ledgers != nil {
			number := (1 << 20) + 2*int(w.place.used.Load())
			warm = spendRequest{Verb: charge, Number: number, Account: 1, Amount: 1}
			stuck = spendRequest{Verb: charge, Number: number + 1, Amount: 1}
		}
		c.call(warm)
		held, pass := c.tap.hold()
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			c.call(stuck)
		}()
		for locked := false; !locked; {
			select {
			case <-held:
			case <-answered:
				close(pass)
				return errors.New("lin: a call of a client got no answer to hold up")
			}
			// The server may have sent the answer while it goes on with the next statement.
			var states string
			err = eventually("the client has all answers", func() (bool, error) {
				states, err = c.states()
				return !strings.Contains(states, "active"), err
			})
			if locked = err != nil || open(states); !locked {
				next, through := c.tap.hold()
				close(pass)
				held, pass = next, through
			}
		}
		err = errors.Join(err, c.p.Signal(syscall.SIGSTOP))
		close(pass)
		err = errors.Join(err, b.land())
		switch how {
		case killedClient:
			c.p.Kill()
			c.tap.Drop() // as the client's system does
		case ended:
			err = errors.Join(err, c.atRest())
			fallthrough
		default:
			err = errors.Join(err, c.p.Signal(syscall.SIGCONT))
		}
		<-answered
		return err
	}
}

func fills(ks ...int) storeRequest {
	op := history.Op{Kind: history.Apply, Txns: make([][]history.Move, 1)}
	for _, k := range ks {
		op.Txns[0] = append(op.Txns[0], history.Move{Key: k, Amount: 1})
	}
	return storeRequest{op}
}

// stoppable is a client in a process of its own, whose connections go through a tap.
type stoppable struct {
	*remote
	b    *blow
	name string // of its connections
	tap  *tap
	p    *child.Process
}

func (c *stoppable) start(how ending) (err error) {
	if c.tap, err = newTap(c.place.url, false, new(atomic.Bool)); err != nil {
		return err
	}
	s := Setting{
		URL: c.tap.URL() + "&application_name=" + c.name, Schema: c.place.schema, Timeout: time.Minute,
	}
	if how == ended {
		s.Timeout = hasty
	}
	if c.ledgers != nil {
		s.Budget = c.ledgers.budget
	} else {
		for k := range keys {
			s.Buckets = append(s.Buckets, c.bucket(k))
		}
	}
	c.p, err = child.Start("lin", s)
	return err
}

// call has the client make a call, and records it.
func (c *stoppable) call(in request) {
	rec := &c.b.h.rec
	one := &call{client: clients, in: in, began: rec.stamp()}
	one.out = ask(c.p, in, 0)
	rec.finish(one)
}

// atRest waits until the server has ended the client's transaction.
func (c *stoppable) atRest() error {
	return eventually("the server has ended the transaction", func() (bool, error) {
		states, err := c.states()
		return !open(states), err
	})
}

// open reports whether a connection has a transaction that holds rows locked. One that has failed
// holds none, and the server does not end it: with the transaction went the bound on its time.
func open(states string) bool {
	return slices.Contains(strings.Split(states, ","), "idle in transaction")
}

// states returns the states of the client's connections.
func (c *stoppable) states() (states string, err error) {
	err = c.place.direct.QueryRow(context.Background(),
		`SELECT coalesce(string_agg(state, ','), '') FROM pg_stat_activity WHERE application_name = $1`, c.name).Scan(&states)
	return states, err
}

// end ends the client, and waits until the server has ended its connections.
func (c *stoppable) end() error {
	c.p.Kill() // it has answered, or was to be killed
	err := eventually("the connections of a dead client have ended", func() (bool, error) {
		states, err := c.states()
		return states == "", err
	})
	return errors.Join(err, c.tap.Close())
}
