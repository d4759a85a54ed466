package bolt_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/boltfile"
	"github.com/brimgo/brim/store"
)

// countdown is a context that ends after some looks at its Err.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// remains makes a file with some buckets, and reads it as "brim verify --salvage" does.
func remains(t *testing.T) *boltfile.Remains {
	t.Helper()
	path := filepath.Join(t.TempDir(), "old.db")
	s, err := bolt.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		op := store.Op{Bucket: store.Limit{Capacity: 10}.For(fmt.Sprint("key", i)), Amount: 1}
		if _, err := s.Fill(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := boltfile.ReadRemains(t.Context(), path, 0, func(uint64, uint64) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// TestSalvageInterrupted ends the context at every look at it. No interrupted salvage may leave a
// file, and the first that is not interrupted writes all buckets.
func TestSalvageInterrupted(t *testing.T) {
	r, dir := remains(t), t.TempDir()
	for looks := 0; ; looks++ {
		path := filepath.Join(dir, "new.db")
		rep, err := boltfile.Salvage(&countdown{t.Context(), looks}, r, path, bolt.Salvor())
		if err == nil {
			if looks == 0 || !rep.Whole || len(rep.Findings) > 0 {
				t.Errorf("after %d looks: %+v", looks, rep)
			}
			break
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d looks: %v", looks, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Fatalf("after %d looks the directory has %v, %v", looks, left, err)
		}
	}
	s, err := bolt.Open(filepath.Join(dir, "new.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if page, err := s.Scan(t.Context(), "", "", 100); err != nil || len(page) != 20 {
		t.Errorf("the new file has %d buckets, %v; want 20", len(page), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestSalvageRefuses(t *testing.T) {
	r, dir := remains(t), t.TempDir()
	taken := filepath.Join(dir, "taken.db")
	if err := os.WriteFile(taken, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, path string
		want       error
	}{
		{"a file stands there", taken, boltfile.ErrExists},
		{"no such directory", filepath.Join(dir, "missing", "new.db"), fs.ErrNotExist},
		{"a file for a directory", filepath.Join(taken, "new.db"), store.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := boltfile.Salvage(t.Context(), r, c.path, bolt.Salvor()); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
	if content, err := os.ReadFile(taken); err != nil || string(content) != "precious" {
		t.Errorf("the file that stood there has %q, %v", content, err)
	}
}

func TestNoRemains(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	page := make([]byte, 4096)
	for _, c := range []struct {
		name, path string
		want       error
	}{
		{"nothing there", filepath.Join(dir, "missing.db"), fs.ErrNotExist},
		{"a directory", dir, store.ErrUnavailable},
		{"an empty file", write("empty.db", nil), store.ErrCorrupt},
		{"a text", write("text.db", []byte("not a database")), store.ErrCorrupt},
		{"one page of zeros", write("page.db", page), store.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := boltfile.ReadRemains(t.Context(), c.path, time.Millisecond, func(uint64, uint64) {})
			if err == nil {
				_ = r.Close()
			}
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// TestSalvagePages replaces each page of a file by zeros, by its neighbor, and by its content
// before the last fills. Each salvage must name the damage or write a file whose buckets have a
// level that they once had.
func TestSalvagePages(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "old.db")
	var versions [2][]byte
	for v := range versions {
		s, err := bolt.OpenRelaxed(path, nil) // it syncs once for all fills
		if err != nil {
			t.Fatal(err)
		}
		for i := range 300 {
			op := store.Op{Bucket: store.Limit{Capacity: 10}.For(fmt.Sprintf("key %0100d", i)), Amount: 1}
			if _, err := s.Fill(t.Context(), op); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if versions[v], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	size := os.Getpagesize()
	before, now := versions[0], versions[1]
	page := func(content []byte, p int) []byte {
		if (p+1)*size > len(content) {
			return make([]byte, size)
		}
		return content[p*size : (p+1)*size]
	}
	salvaged, refused, step := 0, 0, 1
	if testing.Short() {
		step = 8
	}
	for p := 0; p < len(now)/size; p += step {
		for name, content := range map[string][]byte{
			"zeros": make([]byte, size), "its neighbor": page(now, p+1), "its past": page(before, p),
		} {
			damaged := append([]byte(nil), now...)
			copy(damaged[p*size:], content)
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			found, err := salvage(t, path, filepath.Join(t.TempDir(), "new.db"))
			if err != nil {
				if !errors.Is(err, store.ErrCorrupt) {
					t.Fatalf("page %d became %s: %v", p, name, err)
				}
				refused++
				continue
			}
			salvaged++
			for _, e := range found {
				if e.Level != 1 && e.Level != 2 {
					t.Errorf("page %d became %s: bucket %q has %v units", p, name, e.Key, e.Level)
				}
			}
		}
	}
	t.Logf("%d salvages, %d refused", salvaged, refused)
	if want := 30 / step; salvaged < want {
		t.Errorf("%d salvages wrote a file, want %d at least", salvaged, want)
	}
}

// salvage writes the remains of a file to a new one, and returns its buckets.
func salvage(t *testing.T, from, to string) ([]store.Entry, error) {
	t.Helper()
	r, err := boltfile.ReadRemains(t.Context(), from, 0, func(uint64, uint64) {})
	if err != nil {
		return nil, err
	}
	_, err = boltfile.Salvage(t.Context(), r, to, bolt.Salvor())
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	s, err := bolt.Open(to, nil)
	if err != nil {
		t.Fatalf("the new file does not open: %v", err)
	}
	found, err := s.Scan(t.Context(), "", "", 1000)
	if err = errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return found, nil
}
