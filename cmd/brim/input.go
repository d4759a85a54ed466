package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/brimgo/brim/cmd/brim/internal/replay"
	"github.com/brimgo/brim/cmd/brim/internal/trace"
)

// input is the log that is replayed.
type input struct {
	r    io.Reader
	file *os.File // nil for stdin
	name string
	size int64 // 0 where it is not known
	read atomic.Int64
}

func (a *app) input(path string) (*input, error) {
	if path == "-" {
		return &input{r: a.stdin, name: "stdin"}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, dataError{err}
	}
	info, err := f.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a directory; give a log file", path)
	}
	if err != nil {
		return nil, dataError{errors.Join(err, f.Close())}
	}
	return &input{r: f, file: f, name: path, size: info.Size()}, nil
}

func (in *input) Read(p []byte) (int, error) {
	n, err := in.r.Read(p)
	in.read.Add(int64(n))
	if err != nil && err != io.EOF {
		err = dataError{err}
	}
	return n, err
}

// share is how much of the log has been read.
func (in *input) share() float64 {
	if in.size == 0 {
		return 0
	}
	return float64(in.read.Load()) / float64(in.size)
}

func (in *input) close() {
	if in.file != nil {
		_ = in.file.Close() // it was only read
	}
}

// nameBad names the first of the lines that are no requests.
func (in *input) nameBad(w io.Writer, rep *replay.Report) {
	if rep.Requests == 0 {
		return // the error says it
	}
	for _, e := range rep.Bad {
		fmt.Fprintf(w, "brim: %s: %v\n", in.name, e)
	}
	if more := rep.Unparsed - int64(len(rep.Bad)); more > 0 {
		fmt.Fprintf(w, "brim: %s: %d more lines are no requests\n", in.name, more)
	}
}

// explain puts the log's name before an error that is about the log. rep is not nil where the log was read to its end.
func (in *input) explain(err error, rep *replay.Report) error {
	switch {
	case errors.Is(err, replay.ErrNoRequests) && rep.Unparsed == 0:
		return dataError{fmt.Errorf("%s is empty: it holds no requests", in.name)}
	case errors.Is(err, replay.ErrNoRequests):
		return dataError{fmt.Errorf("%s: none of its %d lines is a request; give an access log in common or combined format, "+
			"CSV whose first line names time and key, or JSON lines; %w", in.name, rep.Unparsed, rep.Bad[0])}
	case errors.Is(err, trace.ErrFormat), errors.Is(err, trace.ErrField):
		return fmt.Errorf("%s: %w", in.name, err)
	}
	return err
}
