package plot

import (
	"encoding/xml"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A timeline of any times in any order has few bins, loses no decision, and counts each in the bin
// of its time.
func TestTimeline(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, reach := range []time.Duration{
		0, time.Millisecond, 3 * time.Second, time.Hour, 13 * time.Hour, 24 * time.Hour, 9000 * time.Hour, 1 << 62,
	} {
		var tl Timeline
		var times []time.Time
		for range 2000 {
			at := time.Unix(0, 0).Add(time.Duration((r.Float64() - 0.5) * float64(reach)))
			times = append(times, at)
			tl.Add(at, at.UnixMicro()%3 != 0)
		}
		bins, accepted, refused := tl.Bins(), int64(0), int64(0)
		if span := bins[len(bins)-1].Start.Sub(bins[0].Start); int64(span/tl.Width()) >= 300 {
			t.Errorf("%v: more than 300 bins of %v", reach, tl.Width())
		}
		for i, b := range bins {
			accepted, refused = accepted+b.Accepted, refused+b.Refused
			if i > 0 && b.Start.Before(bins[i-1].Start.Add(tl.Width())) {
				t.Fatalf("%v: bins overlap or are out of order", reach)
			}
			in := int64(0)
			for _, at := range times {
				if !at.Before(b.Start) && at.Before(b.Start.Add(tl.Width())) {
					in++
				}
			}
			if in != b.Accepted+b.Refused {
				t.Fatalf("%v: bin %d counts %d decisions; want %d", reach, i, b.Accepted+b.Refused, in)
			}
		}
		var wanted int64
		for _, at := range times {
			if at.UnixMicro()%3 != 0 {
				wanted++
			}
		}
		if accepted != wanted || refused != 2000-wanted {
			t.Errorf("%v: %d accepted and %d refused; want %d and %d", reach, accepted, refused, wanted, 2000-wanted)
		}
	}
}

// The pictures of timelines are XML, and have texts for screen readers.
func TestTimelinePictures(t *testing.T) {
	var empty, one Timeline
	one.Add(time.Unix(0, 0), true)
	one.Add(time.Unix(3600, 0), false)
	for name, svg := range map[string]string{
		"no requests": empty.Picture("a < b", 0), "requests": one.Picture("a < b", 0), "flips": one.FlipPicture("a < b", 400),
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
