package boltfile

import "testing"

func TestRenameNew(t *testing.T) { testTakesNoName(t, renameNew) }
