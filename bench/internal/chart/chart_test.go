package chart

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 0.0123456: "0.0123", 9.996: "10", 12.34: "12.3", 999.4: "999", 999.9: "1k", 1000: "1k", 1234: "1.23k", 67_000: "67k",
		999_900: "1M", 2_345_678: "2.35M", 1e9: "1G", -1500: "-1.5k", 100: "100", 0.5: "0.5",
	} {
		if got := Number(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

func TestScale(t *testing.T) {
	s := newScale([]float64{30, 0, 20_000}, 100, 500)
	if got := len(s.ticks()); got != 5 {
		t.Errorf("%v: want 10 to 100,000", s.ticks())
	}
	for v, want := range map[float64]float64{10: 100, 1000: 300, 100_000: 500, 0: 100, 1: 100, 1e9: 500} {
		if got := s.at(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v is at %v, want %v: off the scale is at its end", v, got, want)
		}
	}
	for _, values := range [][]float64{nil, {0}, {100}, {math.Inf(1)}} {
		if s := newScale(values, 0, 1); !(s.high > s.low) || len(s.ticks()) < 2 {
			t.Errorf("%v gives the empty scale %+v", values, s)
		}
	}
}

// elements reads a picture as XML and returns the attributes and text of its elements of a name.
func elements(t *testing.T, svg, name string) (attributes []map[string]string, texts []string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return attributes, texts
		}
		if err != nil {
			t.Fatalf("not XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == name {
				all := make(map[string]string)
				for _, a := range token.Attr {
					all[a.Name.Local] = a.Value
				}
				attributes = append(attributes, all)
			}
		case xml.CharData:
			texts = append(texts, string(token))
		}
	}
}

func TestBars(t *testing.T) {
	svg := Bars("Decisions < per second & more", "decisions per second", []string{"ours", "theirs"},
		[]Bar{{"fast", 1e6, 0}, {"slow", 1e3, 1}, {"nothing", 0, 1}})
	rects, texts := elements(t, svg, "rect")
	if len(rects) != 1+2+3 {
		t.Fatalf("%d rectangles, want the ground, a key of two and three bars", len(rects))
	}
	width := func(i int) float64 {
		w, err := strconv.ParseFloat(rects[i]["width"], 64)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	if fast, slow, nothing := width(3), width(4), width(5); fast != 480 || slow > 1 || nothing != 1 {
		t.Errorf("widths %v, %v and %v: from 1k to 1M, the longest fills the plot and 0 is still seen", fast, slow, nothing)
	}
	if rects[3]["fill"] == rects[4]["fill"] || rects[4]["fill"] != rects[5]["fill"] {
		t.Error("groups are told apart by colour")
	}
	for _, want := range []string{"Decisions < per second & more", "fast", "1M", "ours", "decisions per second"} {
		if !strings.Contains(strings.Join(texts, "\n"), want) {
			t.Errorf("nowhere says %q", want)
		}
	}
}

func TestLines(t *testing.T) {
	svg := Lines("Growth", "buckets", "µs", []Line{
		{"a", [][2]float64{{1e3, 10}, {1e6, 10}}}, {"b", [][2]float64{{1e3, 10}, {1e6, 11}}}, {"none", nil},
	})
	polylines, texts := elements(t, svg, "polyline")
	curves := 0
	for _, l := range polylines {
		if l["stroke-width"] == "2" {
			curves++
		}
	}
	if curves != 2 || strings.Contains(strings.Join(texts, "\n"), "none") {
		t.Errorf("%d curves; want two, and no name for the one without points", curves)
	}
	named, _ := elements(t, svg, "text")
	last := len(named) - 1
	if named[last]["y"] == named[last-1]["y"] {
		t.Error("two names on top of each other")
	}
	elements(t, Lines("", "", "", nil), "svg") // must be XML, too
}

func TestTable(t *testing.T) {
	tab := Table{Header: []string{"what", "1", "two"}}
	tab.Add("a|b", "10")
	tab.Add("c\nd", "1", "12345", "beyond")
	want := "" +
		"| what |   1 |   two |\n" +
		"| ---- | --: | ----: |\n" +
		`| a\|b |  10 |       |` + "\n" +
		"| c d  |   1 | 12345 |\n"
	if got := tab.Markdown(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
