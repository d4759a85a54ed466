package boltfile

import (
	"testing"

	"github.com/brimgo/brim/internal/vfs"
)

func TestRenameNew(t *testing.T) { testTakesNoName(t, vfs.OS{}.RenameNew) }
