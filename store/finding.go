package store

import (
	"errors"
	"fmt"
)

// Severity is the weight of a [Finding].
type Severity uint8

const (
	// Unchecked says that a check got no answer: it lacks a right, or the system does not tell.
	Unchecked Severity = iota
	// Warning says that the promises hold, and that something weakens them or will.
	Warning
	// Broken says that a promise of the backend does not hold: the backend cannot decide, or it
	// can lose decisions that it has acknowledged.
	Broken
)

// String returns "unchecked", "warning" or "broken".
func (s Severity) String() string {
	switch s {
	case Unchecked:
		return "unchecked"
	case Warning:
		return "warning"
	case Broken:
		return "broken"
	}
	return fmt.Sprintf("severity %d", uint8(s))
}

// MarshalText returns String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a text that MarshalText has written.
func (s *Severity) UnmarshalText(text []byte) error {
	for known := range Broken + 1 {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return errors.New("a severity is unchecked, warning or broken")
}

// Finding is one result of the function Check of a backend. It contains no password, and no key but
// that of an account whose time is ahead.
type Finding struct {
	// Severity is the weight of the finding.
	Severity Severity `json:"severity"`
	// Subject names the setting or the thing, for instance "maxmemory-policy". In a cluster the
	// address of the server follows.
	Subject string `json:"subject"`
	// Problem describes the fault or the risk.
	Problem string `json:"problem"`
	// Remedy tells the operator how to end the problem.
	Remedy string `json:"remedy"`
}
