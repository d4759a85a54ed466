// Command draw makes the pictures of shaping.md from what brim's buckets do on an injected clock: run it in its directory with
//
//	go run . ..
//
// Its test fails where a picture is not what it draws.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/memory"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: draw DIRECTORY")
		os.Exit(2)
	}
	if err := write(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

// pictures are the files and what draws them.
var pictures = map[string]func(context.Context) (string, error){
	"shaper-or-policer.svg":  shaperOrPolicer,
	"twice-the-capacity.svg": twiceTheCapacity,
	"depth-and-timeout.svg":  depthAndTimeout,
}

func write(ctx context.Context, dir string) error {
	for name, draw := range pictures {
		svg, err := draw(ctx)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(svg), 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// start is when every picture begins.
var start = time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)

// stage is an empty store on a clock that is moved.
type stage struct {
	lim *brim.Limiter
	now time.Time
}

func newStage() (*stage, error) {
	s := &stage{now: start}
	db, err := memory.New(&memory.Options{Clock: func() time.Time { return s.now }})
	if err != nil {
		return nil, err
	}
	s.lim = brim.New(db, nil)
	return s, nil
}

// at moves the clock.
func (s *stage) at(since time.Duration) { s.now = start.Add(since) }
