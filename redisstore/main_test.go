package redisstore

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/brimgo/brim/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.With(m)) }
