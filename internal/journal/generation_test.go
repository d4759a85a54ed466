package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestGeneration: the newest generation is found in either region, beside the frames of the one
// before.
func TestGeneration(t *testing.T) {
	j := create(t, small)
	if n, err := Generation(j.path); err != nil || n != 0 {
		t.Errorf("an empty journal: %d, %v", n, err)
	}
	body := make([]byte, small/3)
	for range 20 {
		j.Release(j.End())
		if err := j.Append(body); err != nil {
			t.Fatal(err)
		}
		if n, err := Generation(j.path); err != nil || n != j.End().Generation {
			t.Fatalf("%d, %v; want %d", n, err, j.End().Generation)
		}
	}
	if j.End().Generation < 3 {
		t.Errorf("the regions took turns %d times only", j.End().Generation-1)
	}
}

func TestGenerationOfNoJournal(t *testing.T) {
	if _, err := Generation(filepath.Join(t.TempDir(), "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte(magic), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Generation(short); !errors.Is(err, ErrDamaged) {
		t.Errorf("a file that is cut short: %v", err)
	}
}
