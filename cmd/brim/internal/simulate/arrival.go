package simulate

import (
	"io"
	"strconv"
)

// Arrival is one request for room in a bucket.
type Arrival struct {
	Line int     // of the log, counted from 1; 0 if the arrival comes from no log
	Time int64   // microseconds since the Unix epoch
	Key  string  // of the bucket
	Cost float64 // units; a number from 0 to 2^53
}

// Source yields arrivals. Only one goroutine at a time calls its methods.
type Source interface {
	// Next returns the next arrival. It returns a [*LineError] for a line of a log that is not a
	// request, and the following call continues with the next line. At the end it returns io.EOF.
	Next() (Arrival, error)
}

// Reactive is a [Source] whose arrivals depend on earlier answers, for instance because refused
// callers come back.
type Reactive interface {
	Source
	// Answer tells the source the answer to an arrival before the next call of Next.
	Answer(Event)
}

// LineError reports a line of a log that is not a request.
type LineError struct {
	Line int    // counted from 1
	Why  string // the reason, without text of the line, which may be personal data
}

func (e *LineError) Error() string { return "line " + strconv.Itoa(e.Line) + ": " + e.Why }

// Of returns a source of the given arrivals.
func Of(arrivals ...Arrival) Source {
	list := list(arrivals)
	return &list
}

type list []Arrival

func (l *list) Next() (Arrival, error) {
	if len(*l) == 0 {
		return Arrival{}, io.EOF
	}
	a := (*l)[0]
	*l = (*l)[1:]
	return a, nil
}
