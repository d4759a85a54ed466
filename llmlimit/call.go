package llmlimit

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/guard"
)

// call is a call from its request to its charge.
type call struct {
	t       *Transport
	id      string
	dialect dialect
	name    string // of the model
	model   Model
	bound   bound
	hide    bool // the caller has not asked for the usage of a stream
	bucket  brim.Bucket
	meter   *guard.Meter

	unsent  bool  // certainly
	blocked error // of the block of the bucket
	status  int
	stop    context.CancelFunc // ends the context of the call
	leave   func() bool        // forgets the caller's

	mu     sync.Mutex
	reader *reader // nil: there was no answer
	eof    bool
	once   sync.Once
	// settled is closed when the call is charged, or cannot be.
	settled chan struct{}
}

// end charges the call, once, and waits for that: the next call of the same caller then finds the
// charge, and no hold. It does not wait for long, since the ledger may be away.
func (c *call) end() {
	c.once.Do(func() { go c.settle() })
	select {
	case <-c.settled:
	case <-time.After(patience):
	}
}

func (c *call) settle() {
	defer close(c.settled)
	done := Call{ID: c.id, Model: c.name, Held: c.meter.Held}
	c.mu.Lock()
	done.Charged, done.Usage, done.Known = c.cost()
	leave := c.leave
	c.mu.Unlock()
	done.Err = errors.Join(c.blocked, c.meter.Close(done.Charged))
	if c.stop != nil {
		c.stop()
	}
	if leave != nil {
		leave()
	}
	if c.t.o.Done != nil {
		c.t.o.Done(done)
	}
}

// cost returns the charge and the usage of the call, and whether the charge is exact.
func (c *call) cost() (_ spend.Money, u Usage, exact bool) {
	held, nothing := c.meter.Held, spend.Money{Currency: c.meter.Held.Currency}
	switch {
	case c.unsent:
		return nothing, u, true
	case c.reader == nil:
		return held, u, false
	}
	u, told := c.reader.result(c.eof)
	switch {
	case !told && c.free():
		return nothing, u, true
	case !told || u.Odd || c.bound.extra:
		return held, u, false
	}
	if u.Final && (u.Tier != "" || c.bound.tier == "" || c.bound.tier == standard) {
		if cost, ok, err := c.model.cost(&u); ok && err == nil {
			u.Tier = c.model.tier(&u)
			return cost, u, true
		}
		return held, u, false
	}
	most := u
	if !u.Final {
		most.Output = max(u.Output, c.bound.output)
	}
	cost, err := c.model.most(&most)
	if err != nil || !u.Final && cost.Minor > held.Minor {
		return held, u, false
	}
	return cost, u, false
}

// free reports whether an answer without a usage costs nothing: the provider has refused the call.
// After 408 and 499 the model may have answered, and so after a server error that a proxy between
// has written.
func (c *call) free() bool {
	const closedRequest = 499 // of nginx
	switch s := c.status; {
	case s == http.StatusRequestTimeout || s == closedRequest:
		return false
	case s >= 500:
		return c.reader.refused(c.dialect)
	default:
		return s >= 300
	}
}

// body is the body of an answer.
type body struct {
	io.ReadCloser
	c       *call
	hide    *hider
	reading sync.Mutex
}

// Read reads on, and charges the call before it returns an error or the end.
func (b *body) Read(p []byte) (n int, err error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	return b.read(p)
}

func (b *body) read(p []byte) (n int, err error) {
	if b.hide != nil {
		n, err = b.hide.read(p, b.note)
	} else {
		n, err = b.ReadCloser.Read(p)
		b.note(p[:n], err)
	}
	if err != nil {
		b.c.end()
	}
	return n, err
}

// note reads a part of the answer.
func (b *body) note(p []byte, err error) {
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	_, _ = b.c.reader.Write(p)
	b.c.eof = b.c.eof || err == io.EOF
}

// Close closes the body and charges the call. With Drain, it reads the rest of the answer before.
// It also reads that of a server error: SDKs send the call again without having read it, and it
// tells whether the provider has refused the call.
func (b *body) Close() error {
	switch {
	case b.c.t.o.Drain:
		b.rest(drainFor, math.MaxInt)
	case b.c.status >= 500:
		b.rest(patience, maxError)
	}
	err := b.ReadCloser.Close()
	b.c.end()
	return err
}

// rest reads the rest of the answer, for a time and up to a length.
func (b *body) rest(wait time.Duration, most int) {
	late := time.AfterFunc(wait, b.c.stop)
	defer late.Stop()
	b.reading.Lock()
	defer b.reading.Unlock()
	part := make([]byte, 32<<10)
	for n := 0; n < most; {
		i, err := b.read(part)
		if err != nil {
			return
		}
		n += i
	}
}
