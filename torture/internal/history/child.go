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
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/torture/internal/iotrace"
)

// Request is an order to the child.
type Request struct {
	Dir     string `json:"dir"` // an empty directory for the file
	Relaxed bool   `json:"relaxed,omitempty"`
	Defect  Defect `json:"defect,omitempty"`
	Ops     []Op   `json:"ops"`
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
		if err := (&runner{Request: req, notes: notes}).run(); err != nil {
			return err
		}
		if _, err := notes.WriteString(iotrace.Done); err != nil {
			return err
		}
	}
}

// backend is a store with the methods that bolt's stores share.
type backend interface {
	store.Store
	Compact(ctx context.Context) (before, after int64, err error)
}

// runner carries out one request.
type runner struct {
	Request
	notes   *os.File
	seconds int
	s       backend // nil while the store is closed
}

func (r *runner) run() error {
	for i, op := range r.Ops {
		if err := r.tell(Note{Op: i, Begun: true}); err != nil {
			return err
		}
		answer := r.do(op)
		if err := r.tell(Note{Op: i, Answer: &answer}); err != nil {
			return err
		}
	}
	if _, err := r.notes.WriteString(iotrace.Heal); err != nil {
		return err
	}
	if err := r.tell(Note{Op: Final, Begun: true}); err != nil {
		return err
	}
	answer := failed(r.close())
	return r.tell(Note{Op: Final, Answer: &answer})
}

// random matches the parts of error texts that differ from run to run.
var random = regexp.MustCompile(`new-[A-Z2-7]{26}`)

func (r *runner) tell(n Note) error {
	if n.Answer != nil {
		text := strings.ReplaceAll(n.Answer.Text, filepath.Clean(r.Dir), "")
		n.Answer.Text = random.ReplaceAllString(text, "new-X")
	}
	data, err := json.Marshal(n)
	if err == nil {
		_, err = r.notes.Write(data)
	}
	return err
}

// Path returns the path of the file in a directory.
func Path(dir string) string { return filepath.Join(dir, "limits.db") }

// options has the store write only when a history says so.
func options(clock func() time.Time) *bolt.Options {
	return &bolt.Options{Clock: clock, LockTimeout: -1, RelaxedWindow: time.Hour}
}

func (r *runner) open() (err error) {
	if r.s != nil {
		return nil
	}
	o := options(func() time.Time { return At(r.seconds) })
	if r.Relaxed || r.Defect == Early {
		var s *bolt.Relaxed
		if s, err = bolt.OpenRelaxed(Path(r.Dir), o); err == nil {
			r.s = s
		}
		return err
	}
	var s *bolt.Store
	if s, err = bolt.Open(Path(r.Dir), o); err == nil {
		r.s = s
	}
	return err
}

func (r *runner) close() error {
	if r.s == nil {
		return nil
	}
	s := r.s
	r.s = nil
	return s.Close()
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
		return failed(errors.Join(r.close(), r.open()))
	}
	return r.call(r.Defect.wrap(r.s), op)
}

func (r *runner) call(s backend, op Op) Answer {
	ctx := context.Background()
	switch op.Kind {
	case Fill:
		st, err := s.Fill(ctx, op.Txns[0][0].op())
		if errors.Is(err, store.ErrNotHeld) {
			return Answer{Results: []Result{{NotHeld: true}}}
		}
		if err != nil {
			return failed(err)
		}
		return Answer{Results: []Result{resultOf(st.Accepted, []store.State{st})}}
	case Apply:
		return apply(ctx, s, op)
	case Delete:
		keys := make([]string, len(op.Keys))
		for i, k := range op.Keys {
			keys[i] = key(k)
		}
		return failed(s.Delete(ctx, keys...))
	case Prune:
		_, err := s.Prune(ctx)
		return failed(err)
	case Compact:
		_, _, err := s.Compact(ctx)
		return failed(err)
	case Sync:
		if relaxed, ok := s.(interface{ Sync(context.Context) error }); ok {
			return failed(relaxed.Sync(ctx))
		}
		return Answer{}
	}
	return Answer{Err: NotApplied, Text: fmt.Sprintf("there is no call %q", op.Kind)}
}

func apply(ctx context.Context, s backend, op Op) Answer {
	txns := make([]store.Txn, len(op.Txns))
	for i, moves := range op.Txns {
		for _, m := range moves {
			txns[i] = append(txns[i], m.op())
		}
	}
	results, err := s.Apply(ctx, txns...)
	if err != nil {
		return failed(err)
	}
	var a Answer
	for _, res := range results {
		switch {
		case errors.Is(res.Err, store.ErrNotHeld):
			a.Results = append(a.Results, Result{NotHeld: true})
		case res.Err != nil:
			return failed(res.Err)
		default:
			a.Results = append(a.Results, resultOf(res.Accepted, res.States))
		}
	}
	return a
}

func resultOf(accepted bool, states []store.State) Result {
	res := Result{Accepted: accepted}
	for _, st := range states {
		res.Levels, res.Held = append(res.Levels, st.Level), append(res.Held, st.Held)
	}
	return res
}

// failed returns the answer of a call that has no result but its error.
func failed(err error) Answer {
	switch {
	case err == nil:
		return Answer{}
	case errors.Is(err, store.ErrUnknownOutcome):
		return Answer{Err: Unknown, Text: err.Error()}
	}
	return Answer{Err: NotApplied, Text: err.Error()}
}
