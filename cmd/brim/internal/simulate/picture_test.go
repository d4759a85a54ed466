package simulate_test

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/plot"
)

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
		var levels simulate.Levels
		for _, e := range listed(t, limit, tc.millis...) {
			levels.Add(e)
		}
		svg := levels.Picture(name, limit, 2*time.Second, 0)
		if !strings.Contains(svg, tc.label) || !strings.Contains(svg, tc.end) || strings.Count(svg, "<path") != tc.crosses {
			t.Errorf("%s: want an axis to %s and %d crosses, %s: %s", name, tc.end, tc.crosses, tc.label, svg)
		}
		frame := line(t, svg, `class="ink" fill="none" stroke="currentColor" stroke-width="1" points="`)
		drawn := line(t, svg, `stroke-width="2" points="`)
		seconds, _ := strconv.ParseFloat(tc.end[1:2], 64)
		full := plot.Point{ // at 1 s; the axis has room above the capacity
			X: frame[1].X + (frame[2].X-frame[1].X)/seconds, Y: frame[1].Y - (frame[1].Y-frame[0].Y)/1.15,
		}
		if !slices.ContainsFunc(drawn, func(p plot.Point) bool { return math.Hypot(p.X-full.X, p.Y-full.Y) < 1 }) {
			t.Errorf("%s: the curve is %v; want a corner at %v, where the bucket is full", name, drawn, full)
		}
		if first, last := drawn[0], drawn[len(drawn)-1]; first.X != frame[1].X || first.Y != frame[1].Y || last.X != frame[2].X ||
			(last.Y == frame[2].Y) != (tc.fillup && tc.rate > 0) {
			t.Errorf("%s: the curve is %v in %v; want it from the beginning to the end", name, drawn, frame)
		}
	}
}

// listed returns the decisions about arrivals of one unit each, at the given milliseconds.
func listed(t *testing.T, l simulate.Limit, millis ...int) []simulate.Event {
	t.Helper()
	p := simulate.Pattern{Shape: simulate.Listed}
	for _, m := range millis {
		p.List = append(p.List, simulate.Timed{At: time.Duration(m) * time.Millisecond, Cost: 1})
	}
	var events []simulate.Event
	_, err := simulate.Run(t.Context(), callers(t, p), simulate.Options{
		Limits: []simulate.Limit{l}, Watch: func(e simulate.Event) { events = append(events, e) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return events
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

func TestPicturesAreXML(t *testing.T) {
	var levels simulate.Levels
	levels.Add(simulate.Event{Arrival: simulate.Arrival{Key: "<k>"}, At: simulate.Start, Level: 3})
	limit := simulate.Over(5, time.Second)
	for name, svg := range map[string]string{
		"no limits":  simulate.SharePicture("a < b", nil, 0.01),
		"limits":     simulate.SharePicture("a < b", []simulate.Outcome{{Limit: limit, Accepted: 99, Refused: 1}}, 0.01),
		"one level":  levels.Picture("a < b", limit, time.Minute, 300),
		"no arrival": new(simulate.Levels).Picture("a < b", limit, 0, 0),
	} {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if !strings.Contains(svg, "<title>a &lt; b</title>") || !strings.Contains(svg, "<desc>") {
			t.Errorf("%s: the picture has no title and description for screen readers", name)
		}
	}
}

// A picture of shares ends with the last limit that refuses a request, and names the answer.
func TestSharePictureEnds(t *testing.T) {
	var outcomes []simulate.Outcome
	for i := range 6 {
		limit := simulate.Over(math.Pow(10, float64(i)), time.Second)
		outcomes = append(outcomes, simulate.Outcome{Limit: limit, Accepted: 9, Refused: int64(max(0, 3-i))})
	}
	for refuse, want := range map[float64]string{-1: "", 0.2: "capacity 10", 0: "capacity 1k"} {
		svg := simulate.SharePicture("share", outcomes, refuse)
		if dots := strings.Count(svg, `width="6" height="6"`); dots != 3 {
			t.Errorf("%d limits are drawn; want 3, the last of 100", dots)
		}
		if named := strings.Contains(svg, ">capacity 1"); named != (want != "") || !strings.Contains(svg, want+"<") {
			t.Errorf("refuse %v: the picture does not name %q alone", refuse, want)
		}
	}
}
