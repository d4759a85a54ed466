package plot

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
)

// element is an element of a picture with its attributes and the text directly inside it.
type element struct {
	name string
	attr map[string]string
	text string
}

// parse reads a picture as XML and returns its elements in the order of their start tags.
func parse(t *testing.T, svg string) []*element {
	t.Helper()
	var all, open []*element
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("the picture is not XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attr: make(map[string]string)}
			for _, a := range token.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			all, open = append(all, e), append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].text += string(token)
			}
		}
	}
}

// named returns the elements with a name.
func named(all []*element, name string) (found []*element) {
	for _, e := range all {
		if e.name == name {
			found = append(found, e)
		}
	}
	return found
}

// number returns the value of a numeric attribute.
func (e *element) number(t *testing.T, attribute string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(e.attr[attribute], 64)
	if err != nil {
		t.Fatalf("%s of <%s>: %v", attribute, e.name, err)
	}
	return v
}

// curvesOf returns the points of the curves of a picture, in pixels.
func curvesOf(t *testing.T, svg string) (curves [][]Point) {
	t.Helper()
	for _, e := range named(parse(t, svg), "polyline") {
		if e.attr["stroke-width"] != "2" {
			continue
		}
		var points []Point
		for pair := range strings.FieldsSeq(e.attr["points"]) {
			x, y, _ := strings.Cut(pair, ",")
			px, errX := strconv.ParseFloat(x, 64)
			py, errY := strconv.ParseFloat(y, 64)
			if err := errors.Join(errX, errY); err != nil {
				t.Fatal(err)
			}
			points = append(points, Point{px, py})
		}
		curves = append(curves, points)
	}
	return curves
}

// extent returns the lowest and highest Y of a line at a given X, both NaN where the line does
// not reach. They differ where the line is vertical.
func extent(points []Point, x float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for i := range len(points) - 1 {
		p, q := points[i], points[i+1]
		switch {
		case p.X == q.X && p.X == x:
			low, high = min(low, p.Y, q.Y), max(high, p.Y, q.Y)
		case p.X < q.X && p.X <= x && x <= q.X:
			y := p.Y + (q.Y-p.Y)*(x-p.X)/(q.X-p.X)
			low, high = min(low, y), max(high, y)
		}
	}
	if low > high {
		return math.NaN(), math.NaN()
	}
	return low, high
}

func TestLogLog(t *testing.T) {
	f := Figure{
		Width: 300, Height: 200, X: Axis{Label: "buckets", Log: true}, Y: Axis{Label: "µs", Log: true},
		Curves: []Curve{
			{Name: "a", Dots: true, Points: []Point{{1e3, 10}, {1e6, 10}}},
			{Name: "b", Color: Orange, Points: []Point{{1e3, 10}, {1e4, 100}, {1e6, 11}}},
			{Name: "none"},
		},
	}
	all := parse(t, f.SVG())
	curves, d := curvesOf(t, f.SVG()), f.layout()
	if len(curves) != 2 {
		t.Fatalf("%d curves; want two, as one has no points", len(curves))
	}
	if got, want := curves[1][1], (Point{d.left + 100, d.top}); got != want {
		t.Errorf("10^4 of 10^3 to 10^6 and 100 of 10 to 100 are drawn at %v, want %v", got, want)
	}
	var texts []*element
	for _, e := range named(all, "text") {
		if e.text == "none" {
			t.Error("a curve without points has a name")
		}
		if e.text == "a" || e.text == "b" {
			texts = append(texts, e)
		}
	}
	if len(texts) != 2 || math.Abs(texts[0].number(t, "y")-texts[1].number(t, "y")) < lineStep {
		t.Errorf("the names of curves that end side by side overlap: %+v", texts)
	}
	if dots := named(all, "rect"); len(dots) != 1+2 {
		t.Errorf("%d rectangles; want the ground and two dots", len(dots))
	}
}

func TestTextIsEscapedAndRead(t *testing.T) {
	const hostile = "a < b & \"c\" </svg><script>\x00\xff"
	want := "a < b & \"c\" </svg><script>\uFFFD\uFFFD"
	figure := Figure{
		Title: hostile, Description: hostile, X: Axis{Label: hostile}, Y: Axis{Label: hostile, Rows: []string{hostile}},
		Curves: []Curve{
			{Name: hostile, Points: []Point{{1, 0}}},
		}, Guides: []Guide{{Label: hostile}}, Notes: []Note{{Text: hostile}},
	}
	all := parse(t, figure.SVG())
	if all[0].attr["role"] != "img" || all[1].name != "title" || all[2].name != "desc" {
		t.Error("a picture begins with its title and description for screen readers")
	}
	times := 0
	for _, e := range all {
		if e.name == "script" {
			t.Error("text became an element")
		}
		if e.text == want {
			times++
		}
	}
	if times != 9 {
		t.Errorf("%d texts of 9 are as given", times)
	}
}

func TestEmptyPicturesAreXML(t *testing.T) {
	for _, svg := range []string{
		(&Figure{}).SVG(), (&Figure{X: Axis{Log: true}, Y: Axis{Log: true}}).SVG(),
		(&Figure{Curves: []Curve{{Points: []Point{{math.NaN(), 1}, {1, math.Inf(1)}}}}}).SVG(),
	} {
		if all := parse(t, svg); len(all) == 0 || strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Errorf("the picture is not drawn: %s", svg)
		}
	}
}

func TestColoursAreReadable(t *testing.T) {
	for scheme, p := range map[string]*palette{"light": &light, "dark": &dark} {
		for i, colour := range append([]string{p.ink}, p.colors[:]...) {
			if got := contrast(t, colour, p.ground); got < 4.5 {
				t.Errorf("%s: colour %d has a contrast of %.2f against the ground, want 4.5", scheme, i, got)
			}
		}
	}
	svg := (&Figure{}).SVG()
	for _, want := range []string{"@media (prefers-color-scheme:dark)", light.ground, dark.ground} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture's style does not contain %s", want)
		}
	}
}

// contrast returns the contrast of two colours as WCAG 2 defines it, from 1 to 21.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(colour string) float64 {
		rgb, err := strconv.ParseUint(colour[1:], 16, 32)
		if err != nil {
			t.Fatal(err)
		}
		linear := func(shift int) float64 {
			v := float64(rgb>>shift&255) / 255
			if v <= 0.04045 {
				return v / 12.92
			}
			return math.Pow((v+0.055)/1.055, 2.4)
		}
		return 0.2126*linear(16) + 0.7152*linear(8) + 0.0722*linear(0)
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// The label of a narrow picture is longer than its axis, and stays within the picture.
func TestLabelsOfNarrowPictures(t *testing.T) {
	label := strings.Repeat("wide ", 20)
	f := Figure{Width: 100, X: Axis{Label: label}, Curves: []Curve{{Points: []Point{{1, 1}}}}}
	svg := f.SVG()
	var whole, x float64
	if _, err := fmt.Sscanf(svg[strings.Index(svg, `viewBox="0 0 `):], `viewBox="0 0 %g`, &whole); err != nil {
		t.Fatal(err)
	}
	before := svg[:strings.Index(svg, label)]
	if _, err := fmt.Sscanf(before[strings.LastIndex(before, ` x="`):], ` x="%g`, &x); err != nil {
		t.Fatal(err)
	}
	if half := textWidth(label) / 2; x-half < margin-1 || x+half > whole-margin+1 {
		t.Errorf("the label reaches from %v to %v in a picture %v wide", x-half, x+half, whole)
	}
}
