package history

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/brimgo/brim/lab/internal/iotrace"
	"github.com/brimgo/brim/store"
)

// Request is an order to the child.
type Request struct {
	Dir     string  `json:"dir"` // the directory of the file
	Subject Subject `json:"subject"`
	Defect  Defect  `json:"defect,omitempty"`
	Region  int64   `json:"region,omitempty"`  // of a journal; 0 means the smallest of [Regions]
	Free    bool    `json:"free,omitempty"`    // a call does not wait until a store has ended its work in the background
	Seconds int     `json:"seconds,omitempty"` // that the clock shows when the history begins
	Ops     []Op    `json:"ops"`
}

// Note is a message of the child about the call with that index.
type Note struct {
	Op     int     `json:"op"`
	Begun  bool    `json:"begun,omitempty"`
	Answer *Answer `json:"answer,omitempty"` // nil when the call begins
}

// ReadNote decodes a message of the child.
func ReadNote(data []byte) (n Note, err error) {
	if err := json.Unmarshal(data, &n); err != nil {
		return n, fmt.Errorf("history: the child's message %q: %w", data, err)
	}
	return n, nil
}

// Final is the index of the last call, after all of [Request.Ops]: the child has the disk healed,
// and closes the store. The answer is that of Close.
const Final = -1

// serve carries out requests from the standard input until its end.
func serve() error {
	notes := os.NewFile(iotrace.NoteFD, "notes")
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var req Request
		if err := json.Unmarshal(line, &req); err != nil {
			return err
		}
		if err := (&runner{Request: req, notes: notes, seconds: req.Seconds}).run(); err != nil {
			return err
		}
		if _, err := notes.WriteString(iotrace.Done); err != nil {
			return err
		}
	}
}

// Backend is a store with the methods that bolt's stores share.
type Backend interface {
	store.Store
	Compact(ctx context.Context) (before, after int64, err error)
	Verify(ctx context.Context) error
}

// runner carries out one request.
type runner struct {
	Request
	notes   *os.File
	seconds int
	o       *opened // nil while the store is closed
}

func (r *runner) run() error {
	for i, op := range r.Ops {
		err := r.tell(Note{Op: i, Begun: true})
		if errors.Is(err, syscall.ECANCELED) {
			break // the parent has seen enough
		}
		if err != nil {
			return err
		}
		answer := r.do(op)
		if err := r.tell(Note{Op: i, Answer: &answer}); err != nil {
			return err
		}
		if !r.Free {
			quiet()
		}
	}
	if _, err := r.notes.WriteString(iotrace.Heal); err != nil {
		return err
	}
	if err := r.tell(Note{Op: Final, Begun: true}); err != nil {
		return err
	}
	answer := Failed(r.close())
	return r.tell(Note{Op: Final, Answer: &answer})
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

func (r *runner) tell(n Note) error {
	if n.Answer != nil {
		r.redact(n.Answer)
	}
	data, err := json.Marshal(n)
	if err == nil {
		_, err = r.notes.Write(data)
	}
	return err
}

func (r *runner) open() (err error) {
	if r.o != nil {
		return nil
	}
	subject := r.Subject
	if r.Defect == Early {
		subject = Relaxed
	}
	r.o, err = open(r.Dir, subject, r.Region, func() time.Time { return At(r.seconds) })
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
