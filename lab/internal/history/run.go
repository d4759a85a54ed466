package history

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/brimgo/brim/store"
)

// Request is a history to carry out.
type Request struct {
	Dir     string  `json:"dir"` // the directory of the file
	Subject Subject `json:"subject"`
	Defect  Defect  `json:"defect,omitempty"`
	Segment int64   `json:"segment,omitempty"` // of a journal; 0 means the smallest of [Segments]
	Free    bool    `json:"free,omitempty"`    // a call does not wait until a store has ended its work in the background
	Seconds int     `json:"seconds,omitempty"` // that the clock shows when the history begins
	Ops     []Op    `json:"ops"`
}

// Note is a message about the call with that index.
type Note struct {
	Op     int     `json:"op"`
	Begun  bool    `json:"begun,omitempty"`
	Answer *Answer `json:"answer,omitempty"` // nil when the call begins
}

// Final is the index of the last call, after all of [Request.Ops]: the disk is healed,
// and the store is closed. The answer is that of Close.
const Final = -1

// Backend is a store with the methods that bolt's stores share.
type Backend interface {
	store.Store
	Compact(ctx context.Context) (before, after int64, err error)
	Verify(ctx context.Context) error
}

// Hooks connect a history with a harness.
type Hooks struct {
	// Tell takes the messages in order. If it returns false for the beginning of a call, the
	// history ends there.
	Tell func(Note) bool
	// Heal, if set, has the disk work again before the end.
	Heal func()
}

// Run carries out a request in this process.
func Run(req Request, h Hooks) { (&runner{Request: req, hooks: h, seconds: req.Seconds}).run() }

// runner carries out one request.
type runner struct {
	Request
	hooks   Hooks
	seconds int
	o       *opened // nil while the store is closed
}

func (r *runner) run() {
	for i, op := range r.Ops {
		if !r.tell(Note{Op: i, Begun: true}) {
			break
		}
		answer := r.do(op)
		r.tell(Note{Op: i, Answer: &answer})
		if !r.Free {
			quiet()
		}
	}
	if r.hooks.Heal != nil {
		r.hooks.Heal()
	}
	r.tell(Note{Op: Final, Begun: true})
	answer := Failed(r.close())
	r.tell(Note{Op: Final, Answer: &answer})
}

// random matches the parts of error texts that differ from run to run.
var random = regexp.MustCompile(`new-[A-Z2-7]{24}`)

// redact makes the texts of errors the same in every run.
func (r *runner) redact(a *Answer) {
	a.Text = random.ReplaceAllString(strings.ReplaceAll(a.Text, filepath.Clean(r.Dir), ""), "new-X")
	for i := range a.Each {
		r.redact(&a.Each[i])
	}
}

func (r *runner) tell(n Note) bool {
	if n.Answer != nil {
		r.redact(n.Answer)
	}
	return r.hooks.Tell(n)
}

func (r *runner) open() (err error) {
	if r.o != nil {
		return nil
	}
	subject := r.Subject
	if r.Defect == Early {
		subject = Relaxed
	}
	r.o, err = open(r.Dir, subject, r.Segment, func() time.Time { return At(r.seconds) })
	return err
}

func (r *runner) close() error {
	o := r.o
	r.o = nil
	return o.close()
}

// do carries out one call. It opens the store first if the store could not be opened earlier.
func (r *runner) do(op Op) Answer {
	if op.Kind == Tick {
		r.seconds += op.Seconds
		return Answer{}
	}
	if err := r.open(); err != nil {
		return Answer{Err: NotApplied, Text: err.Error()}
	}
	if op.Kind == Reopen {
		return Failed(errors.Join(r.close(), r.open()))
	}
	ctx := context.Background()
	switch op.Kind {
	case Authorize, Capture, Refund:
		return send(ctx, r.o.budgets, op)
	}
	return Call(ctx, r.Defect.Wrap(r.o.s), op)
}
