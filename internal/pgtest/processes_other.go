//go:build !linux

package pgtest

import (
	"errors"
	"syscall"
)

// Processes needs Linux.
func (s *Server) Processes() ([]Process, error) { return nil, errors.ErrUnsupported }

// Kill needs Linux.
func (s *Server) Kill() error { return errors.ErrUnsupported }

// Signal needs Linux.
func (s *Server) Signal(syscall.Signal) error { return errors.ErrUnsupported }
