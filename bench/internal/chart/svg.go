// Package chart draws figures as plain SVG and writes them as Markdown tables.
package chart

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Colours that are told apart in grey and by the colour-blind, too.
const (
	ink   = "#1f2933"
	faint = "#cbd2d9"
)

var colours = [...]string{"#0b6bcb", "#c2410c", "#15803d", "#7c3aed", "#57534e", "#b45309"}

// canvas collects the elements of a picture.
type canvas struct{ b strings.Builder }

func newCanvas(width, height float64, title string) *canvas {
	c := &canvas{}
	fmt.Fprintf(&c.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="13" fill="%s">`+"\n",
		width, height, ink)
	fmt.Fprintf(&c.b, "<title>%s</title>\n"+`<rect width="100%%" height="100%%" fill="white"/>`+"\n", html.EscapeString(title))
	c.text(16, 24, "start", ink, title)
	return c
}

func (c *canvas) text(x, y float64, anchor, colour, s string) {
	fmt.Fprintf(&c.b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, colour, html.EscapeString(s))
}

func (c *canvas) line(colour string, width float64, points ...[2]float64) {
	fmt.Fprintf(&c.b, `<polyline fill="none" stroke="%s" stroke-width="%g" points="`, colour, width)
	for i, p := range points {
		if i > 0 {
			c.b.WriteByte(' ')
		}
		fmt.Fprintf(&c.b, "%.1f,%.1f", p[0], p[1])
	}
	c.b.WriteString(`"/>` + "\n")
}

func (c *canvas) rect(x, y, width, height float64, colour string) {
	fmt.Fprintf(&c.b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x, y, width, height, colour)
}

func (c *canvas) svg() string { return c.b.String() + "</svg>\n" }

// scale places values between two points by their logarithm, from a power of ten to a power of ten.
type scale struct {
	low, high float64 // exponents
	from, to  float64 // points
}

// newScale makes a scale on which all positive values have room; those that are not positive have no logarithm and do not count.
func newScale(values []float64, from, to float64) scale {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 && !math.IsInf(v, 1) {
			low, high = min(low, math.Floor(math.Log10(v))), max(high, math.Ceil(math.Log10(v)))
		}
	}
	if low > high {
		low, high = 0, 1
	}
	if low == high {
		high++
	}
	return scale{low, high, from, to}
}

// at returns the point of a value; one that is off the scale is put at its end.
func (s scale) at(v float64) float64 {
	share := 0.0
	if v > 0 {
		share = min(1, max(0, (math.Log10(v)-s.low)/(s.high-s.low)))
	}
	return s.from + share*(s.to-s.from)
}

// ticks are the powers of ten on the scale.
func (s scale) ticks() []float64 {
	var all []float64
	for e := s.low; e <= s.high; e++ {
		all = append(all, math.Pow(10, e))
	}
	return all
}

// Number writes a value in three digits, with k, M and G for thousands.
func Number(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= 0.9995*unit.size { // what would round to 1000 is the next unit's 1
			return threeDigits(v/unit.size) + unit.name
		}
	}
	return threeDigits(v)
}

func threeDigits(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	s := fmt.Sprintf("%.*f", max(0, digits), v)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
