package postgres

import (
	"time"

	"github.com/brimgo/brim/store"
)

// flushed tells Options.Trace of a flush; nil where nobody wants to know.
func (s *Store) flushed() func(int, time.Duration, error) {
	tell := s.trace.Flush
	if tell == nil {
		return nil
	}
	return func(requests int, took time.Duration, err error) {
		tell(store.Flush{Backend: backend, Requests: requests, Took: took, Err: err})
	}
}

// retrying tells the log, and Options.Trace, that what was not applied is tried again. Attempt counts from 1.
func (s *Store) retrying(attempt int, err error) {
	s.log.Info("postgres: retrying what was not applied", "attempt", attempt, "error", err)
	if s.trace.Retry != nil {
		s.trace.Retry(store.Retry{Backend: backend, Attempt: attempt, Err: err})
	}
}
