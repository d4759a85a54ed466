package kv

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/brimgo/brim/internal/vfs"
)

// volatile is a file of which a power cut keeps any of the writes since the last sync.
type volatile struct {
	vfs.File
	disk    []byte
	pending []pendingWrite
}

type pendingWrite struct {
	at int64
	b  []byte
}

func (v *volatile) WriteAt(b []byte, at int64) (int, error) {
	v.pending = append(v.pending, pendingWrite{at, bytes.Clone(b)})
	return v.File.WriteAt(b, at)
}

func (v *volatile) SyncData() error {
	for _, p := range v.pending {
		copy(v.disk[p.at:], p.b)
	}
	v.pending = nil
	return nil
}

// cut returns the content of the disk after a power cut. Each write is kept, torn or lost.
func (v *volatile) cut(r *rand.Rand) []byte {
	image, share := slices.Clone(v.disk), r.IntN(4)
	for _, p := range v.pending {
		n := len(p.b)
		if r.IntN(4) < share {
			n = r.IntN(n + 1)
		}
		copy(image[p.at:], p.b[:n])
	}
	return image
}

// lazily makes a log lazy, on a volatile file. If the power stayed on, v is the file before;
// otherwise nil.
func lazily(t testing.TB, j *wal, v *volatile) *volatile {
	t.Helper()
	if v == nil {
		v = &volatile{disk: content(t, j)}
	}
	v.File = j.file
	j.file, j.lazy = v, true
	return v
}

// TestLazyModel appends to a lazy log, syncs, releases, kills and cuts the power at random. A
// replay finds all that was synced, and after that a beginning of the other bodies. A body that was
// lost never comes back.
func TestLazyModel(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 12
	}
	cuts, losses := 0, 0
	for seed := range seeds {
		r := rand.New(rand.NewPCG(2, seed))
		j := create(t, small*(1+r.Int64N(3)))
		v := lazily(t, j, nil)
		var want []string
		kept := j.end // everything before it is released, and in the database
		skipped, synced := 0, 0
		release := func() { kept, skipped, j.released = j.end, len(want), j.end }
		for i := range 400 {
			switch n := r.IntN(40); {
			case n == 0:
				release()
			case n < 4:
				must(t, j.sync(j.end.number))
				synced = len(want)
			case n < 8:
				var image []byte
				switch {
				case n > 5:
					image = v.cut(r)
					v = nil
					cuts++
				case n == 5: // a sync fails, and Linux takes the pages for written
					v.pending = nil
				}
				j = reopen(t, j, image)
				v = lazily(t, j, v)
				got, err := bodies(j, kept)
				durable := max(synced, skipped)
				if image == nil {
					durable = len(want)
				}
				if err != nil || len(got) > len(want)-skipped || len(got) < durable-skipped || !slices.Equal(got, want[skipped:][:len(got)]) {
					t.Fatalf("seed %d, step %d: replay of %d bodies: %v; want %d to %d", seed, i, len(got), err, durable-skipped, len(want)-skipped)
				}
				if len(got) < len(want)-skipped {
					losses++
				}
				want = want[:skipped+len(got)]
				if r.IntN(2) == 0 { // what a replay has found, it has made durable
					j = reopen(t, j, v.cut(r))
					v = lazily(t, j, nil)
					if got, err := bodies(j, kept); err != nil || !slices.Equal(got, want[skipped:]) {
						t.Fatalf("seed %d, step %d: a second replay of %d bodies: %v; want %d", seed, i, len(got), err, len(want)-skipped)
					}
				}
				synced = len(want)
			default:
				body := fmt.Sprintf("%04d %x", i, make([]byte, r.IntN(2)*50)) // many of one size
				err := j.append([]byte(body))
				if errors.Is(err, errFull) {
					release()
					err = j.append([]byte(body))
				}
				must(t, err)
				want = append(want, body)
			}
		}
	}
	t.Logf("%d power cuts, of which %d lost something", cuts, losses)
	if losses == 0 {
		t.Error("no power cut has lost anything")
	}
}

// TestLazyDamage: a frame that a later one knows as synced is never dropped in silence, in either
// generation. One that is not known as synced ends the log, as after a power cut.
func TestLazyDamage(t *testing.T) {
	j := create(t, small)
	lazily(t, j, nil)
	var want []string
	var places []int64 // of the frames in the file
	synced := 0
	for i := 0; j.end.generation < 2 || j.end.offset < 600; i++ {
		body := fmt.Sprintf("body %d %s", i, bytes.Repeat([]byte{'x'}, 90))
		must(t, j.append([]byte(body)))
		want = append(want, body)
		places = append(places, j.at(j.end.generation, j.end.offset-frameSize(int64(len(body)))))
		if j.end.generation == 2 && synced == 0 {
			must(t, j.sync(j.end.number))
			synced = len(want)
		}
	}
	if synced == 0 || synced+3 > len(want) {
		t.Fatalf("%d of %d frames are synced", synced, len(want))
	}
	whole := slices.Clone(content(t, j))
	for n, at := range places {
		image := slices.Clone(whole)
		image[at+headerSize+3] ^= 0x10
		again := reopen(t, j, image)
		got, err := bodies(again, firstPosition)
		switch {
		case n < synced && !errors.Is(err, errLogDamaged):
			t.Errorf("frame %d of %d, %d of them synced: %d bodies, %v; want damage", n, len(want), synced, len(got), err)
		case n >= synced && (err != nil || !slices.Equal(got, want[:n])):
			t.Errorf("frame %d of %d, %d of them synced: %d bodies, %v; want those before it", n, len(want), synced, len(got), err)
		}
		must(t, again.close())
	}
}
