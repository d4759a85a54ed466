// Command draw makes the pictures of the documentation. Run it in the root of the module:
//
//	go run ./internal/draw
//
// They show the decisions of brim's own buckets and budgets on a clock that the program moves. The
// test of this package fails if a picture in docs differs from the picture that the program makes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	docs := flag.String("docs", "docs", "folder of the documentation")
	flag.Parse()
	if err := drawAll(context.Background(), *docs); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

// drawAll writes every picture to a folder.
func drawAll(ctx context.Context, docs string) error {
	for name, draw := range guides {
		path := filepath.Join(docs, name)
		svg, err := draw(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if err := os.WriteFile(path, []byte(svg), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// guides are the pictures of the guides by file name in docs.
var guides = map[string]func(context.Context) (string, error){
	"shaper-or-policer.svg":  shaperOrPolicer,
	"twice-the-capacity.svg": twiceTheCapacity,
	"depth-and-timeout.svg":  depthAndTimeout,
	"spend.svg":              leakyOrRolling,
	"window-edge.svg":        windowEdge,
	"bytes-per-client.svg":   bytesPerClient,
	"mirror-images.svg":      mirrorImages,
	"queue-or-meter.svg":     queueOrMeter,
	"retry-storm.svg":        retryStorm,
	"five-fills.svg":         fiveFills,
	"after-outage.svg":       afterOutage,
}
