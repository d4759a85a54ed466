package harness

import (
	"fmt"
	"math/rand/v2"

	"github.com/brimgo/brim/internal/seed"
)

// Seed is the source of everything random in a run.
type Seed uint64

// NewSeed returns the seed of BRIM_SEED, or a new one if the variable is not set.
func NewSeed() (Seed, error) {
	n, err := seed.New()
	return Seed(n), err
}

// Part returns the seed of part n of a run. Part 0 has the seed of the run, so a run with the seed
// of a part begins with that part.
func (s Seed) Part(n int) Seed { return s + Seed(n) }

// Rand returns a generator. The same seed makes the same numbers.
func (s Seed) Rand() *rand.Rand { return rand.New(rand.NewPCG(uint64(s), 0)) }

// Repeat returns the command that runs a test of a package of module lab with this seed. The
// command is for the module's directory. test is the pattern of "go test -run".
func (s Seed) Repeat(pkg, test string) string {
	night := ""
	if Night() {
		night = "BRIM_TORTURE=1 "
	}
	return fmt.Sprintf("%sBRIM_SEED=%d go test -count=1 -run '%s' ./%s", night, s, test, pkg)
}
