package stall

import (
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
