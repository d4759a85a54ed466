// Package seed gives random tests the seed that everything random in them comes from.
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
