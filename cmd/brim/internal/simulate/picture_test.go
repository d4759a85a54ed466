package simulate_test

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/store"
)

// The picture of a level is within one pixel of the record's level, at every pixel.
func TestLevelsAreExact(t *testing.T) {
	for seed := range uint64(20) {
		pattern := simulate.Pattern{
			Shape: simulate.Poisson, Rate: 0.2 * math.Pow(2, float64(seed)/2), Duration: 2 * time.Minute, Seed: seed,
		}
		limit := simulate.Over(5+float64(seed), time.Duration(1+seed)*2*time.Second)
		var levels simulate.Levels
		record := store.Record{}
		var records []store.Record // after each decision
		_, err := simulate.Run(t.Context(), callers(t, pattern), simulate.Options{
			Limits: []simulate.Limit{limit}, Watch: func(e simulate.Event) {
				levels.Add(e)
				op := store.Op{Bucket: limit.For("k"), Amount: e.Arrival.Cost}
				if _, _, err := record.Fill(&op, e.At.UnixMicro(), simulate.MaxSkew); err != nil {
					t.Fatal(err)
				}
				after := record
				after.Level, after.Time = record.LevelAt(e.At.UnixMicro()), e.At.UnixMicro()
				records = append(records, after)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		svg := levels.Picture("level", limit, pattern.Duration, 0)
		frame := line(t, svg, `class="ink" fill="none" stroke="currentColor" stroke-width="1" points="`)
		left, top, bottom, right := frame[0].X, frame[0].Y, frame[1].Y, frame[2].X
		drawn := line(t, svg, `stroke-width="2" points="`)
		for x := left + 0.25; x < right; x++ {
			at := simulate.Start.UnixMicro() + int64((x-left)/(right-left)*pattern.Duration.Seconds()*1e6)
			const near = 20_000 // microseconds in a tenth of a pixel: a level that jumps there has two values
			i, _ := slices.BinarySearchFunc(records, at, func(r store.Record, at int64) int { return cmp.Compare(r.Time, at) })
			if i < len(records) && records[i].Time-at < near || i > 0 && at-records[i-1].Time < near {
				continue
			}
			level := 0.0
			if i > 0 {
				level = records[i-1].LevelAt(at)
			}
			want := bottom - level/(1.15*limit.Capacity)*(bottom-top) // the axis has room above the capacity
			if got, ok := height(drawn, x); ok && math.Abs(got-want) > 1 {
				t.Fatalf("seed %d: at pixel %v the level %v is drawn at %v; want %v", seed, x, level, got, want)
			} else if !ok && i > 0 {
				t.Fatalf("seed %d: the curve does not reach pixel %v", seed, x)
			}
		}
	}
}

// A picture begins at the start. With fills up to the rim it ends when the bucket is empty, and its
// crosses are overflows.
func TestPictureOfFills(t *testing.T) {
	many := make([]int, 450)
	for i := range many {
		many[i] = 1000
	}
	for name, tc := range map[string]struct {
		fillup  bool
		rate    float64
		millis  []int
		end     string // the last tick of the X axis
		label   string
		crosses int
	}{
		"fills":              {true, 0.5, []int{1000, 1000, 1000}, ">5</text>", "a cross marks an overflow", 1},
		"fills without leak": {true, 0, []int{1000, 1000, 1000}, ">2</text>", "a cross marks an overflow", 1},
		"many fills":         {true, 0.5, many, ">5</text>", "the overflows are too many to mark", 0},
		"tries":              {false, 0.5, []int{1000, 1000, 1000}, ">2</text>", "a cross marks a refused request", 1},
		"many tries":         {false, 0.5, many, ">2</text>", "the refused requests are too many to mark", 0},
	} {
		limit := simulate.Limit{Use: simulate.Use{Fillup: tc.fillup}}
		limit.Capacity, limit.LeakRate = 2, tc.rate
		events, _ := listed(t, limit, limit.Use, 1, tc.millis...)
		var levels simulate.Levels
		for _, e := range events {
			levels.Add(e)
		}
		svg := levels.Picture(name, limit, 2*time.Second, 0)
		if !strings.Contains(svg, tc.label) || !strings.Contains(svg, tc.end) || strings.Count(svg, "<path") != tc.crosses {
			t.Errorf("%s: want an axis to %s and %d crosses, %s: %s", name, tc.end, tc.crosses, tc.label, svg)
		}
		frame := line(t, svg, `class="ink" fill="none" stroke="currentColor" stroke-width="1" points="`)
		drawn := line(t, svg, `stroke-width="2" points="`)
		if first, last := drawn[0], drawn[len(drawn)-1]; first.X != frame[1].X || first.Y != frame[1].Y || last.X != frame[2].X ||
			(last.Y == frame[2].Y) != (tc.fillup && tc.rate > 0) {
			t.Errorf("%s: the curve is %v in %v; want it from the beginning to the end", name, drawn, frame)
		}
	}
}

// line returns the points of the last polyline whose attributes end with the given text.
func line(t *testing.T, svg, attributes string) []plot.Point {
	t.Helper()
	at := strings.LastIndex(svg, attributes)
	if at < 0 {
		t.Fatalf("no line with %s", attributes)
	}
	text, _, _ := strings.Cut(svg[at+len(attributes):], `"`)
	var points []plot.Point
	for _, m := range regexp.MustCompile(`([0-9.]+),([0-9.]+)`).FindAllStringSubmatch(text, -1) {
		var p plot.Point
		if _, err := fmt.Sscan(m[1]+" "+m[2], &p.X, &p.Y); err != nil {
			t.Fatal(err)
		}
		points = append(points, p)
	}
	return points
}

// height returns the Y of a line at x, and false if the line does not reach x.
func height(line []plot.Point, x float64) (float64, bool) {
	for i := 1; i < len(line); i++ {
		a, b := line[i-1], line[i]
		if a.X <= x && x <= b.X && a.X < b.X {
			return a.Y + (b.Y-a.Y)*(x-a.X)/(b.X-a.X), true
		}
	}
	return 0, false
}
