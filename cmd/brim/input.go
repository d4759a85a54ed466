package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/cmd/brim/internal/trace"
)

// input is the log of a replay.
type input struct {
	r    io.Reader
	file *os.File // nil for stdin
	name string
	size int64 // 0 if not known
	read atomic.Int64
}

// input opens a file, or stdin if path is "-". The end of ctx ends the opening and every read.
func (a *app) input(ctx context.Context, path string) (*input, error) {
	if path == "-" {
		return &input{r: interruptible(ctx, a.stdin), name: "stdin"}, nil
	}
	f, err := atOnce(ctx, func() (*os.File, error) { return os.Open(path) }) // a pipe waits for a writer
	if err != nil {
		return nil, dataError{err}
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory; give a file", path)
	}
	if err != nil {
		return nil, dataError{errors.Join(err, f.Close())}
	}
	in := &input{r: f, file: f, name: printable(path), size: info.Size()}
	if !info.Mode().IsRegular() {
		in.r = interruptible(ctx, f)
	}
	return in, nil
}

// interruptible returns a reader of r whose reads end with ctx.
func interruptible(ctx context.Context, r io.Reader) io.Reader {
	pr, pw := io.Pipe()
	go func() {
		_, err := io.Copy(pw, r)
		_ = pw.CloseWithError(err) // never fails
	}()
	context.AfterFunc(ctx, func() { _ = pw.CloseWithError(context.Cause(ctx)) })
	return pr
}

// atOnce returns the result of f, or the cause of the end of ctx, whichever comes first. f may
// still run then, and the command ends.
func atOnce[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.r.Read(p)
	in.read.Add(int64(n))
	if err != nil && err != io.EOF {
		err = dataError{err}
	}
	return n, err
}

// share returns the share of the log that has been read, from 0 to 1, or 0 if the size of the log
// is not known.
func (in *input) share() float64 {
	if in.size == 0 {
		return 0
	}
	return float64(in.read.Load()) / float64(in.size)
}

func (in *input) close() {
	if in.file != nil {
		_ = in.file.Close() // only read from
	}
}

// nameBad reports the first lines that are not requests.
func (in *input) nameBad(w io.Writer, rep *simulate.Report) {
	if rep.Requests == 0 {
		return // explain reports these lines as an error
	}
	for _, e := range rep.Bad {
		fmt.Fprintf(w, "brim: %s: %v\n", in.name, e)
	}
	if more := rep.Unparsed - int64(len(rep.Bad)); more > 0 {
		fmt.Fprintf(w, "brim: %s: further lines that are not requests: %d\n", in.name, more)
	}
}

// explain adds the name of the log to an error about the log. rep is nil if the log could not be
// read at all.
func (in *input) explain(err error, rep *simulate.Report) error {
	switch {
	case errors.Is(err, simulate.ErrNoRequests) && rep.Unparsed == 0:
		return dataError{fmt.Errorf("%s is empty: it holds no requests", in.name)}
	case errors.Is(err, simulate.ErrNoRequests):
		const tried = "tried " + trace.Formats + "; --time and --key name other columns or members"
		err = fmt.Errorf("%s: no request in its %s; %s; %w", in.name, count(rep.Unparsed, "line"), tried, rep.Bad[0])
		return dataError{err}
	case errors.Is(err, simulate.ErrTooManyKeys):
		const remedy = "choose a --key with fewer values, or allow more with --max-keys if the memory is large enough"
		return fmt.Errorf("%s: %w; %s", in.name, err, remedy)
	case errors.Is(err, trace.ErrFormat), errors.Is(err, trace.ErrField):
		return fmt.Errorf("%s: %w", in.name, err)
	}
	return err
}
