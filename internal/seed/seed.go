// Package seed gives random tests their seed, and the number of their attempts.
package seed

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
)

// New returns the seed of the environment variable BRIM_SEED, or a new one if the variable is not
// set.
func New() (uint64, error) {
	text := os.Getenv("BRIM_SEED")
	if text == "" {
		return uint64(rand.Uint32()), nil // short enough to be typed
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("BRIM_SEED must be a whole number from 0 to 2^64-1: %w", err)
	}
	return n, nil
}

// Count returns the number of attempts that the environment variable BRIM_COUNT asks for, or usual
// if the variable is not set.
func Count(usual int) (int, error) {
	text := os.Getenv("BRIM_COUNT")
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("BRIM_COUNT=%s must be a whole number of attempts, 1 at least", text)
	}
	return n, nil
}

// Attempts returns usual, or night if BRIM_TORTURE=1 asks for the budgets of a night.
func Attempts(usual, night int) int {
	if os.Getenv("BRIM_TORTURE") == "1" {
		return night
	}
	return usual
}
