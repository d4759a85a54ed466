package plot

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// palette contains the colours of one colour scheme.
type palette struct {
	ground, ink, faint string
	colors             [colors]string // by Color
}

// The colours of curves and names have a contrast of at least 4.5 to 1 against the ground, as
// WCAG 2 asks of text.
var (
	light = palette{
		ground: "#ffffff", ink: "#1f2933", faint: "#cbd2d9",
		colors: [colors]string{"#0b6bcb", "#c2410c", "#15803d", "#7c3aed", "#57534e", "#a16207"},
	}
	dark = palette{
		ground: "#14181d", ink: "#e4e7eb", faint: "#3e4c59",
		colors: [colors]string{"#66b2ff", "#fb923c", "#4ade80", "#c4b5fd", "#bdb8b2", "#facc15"},
	}
)

// shared are the rules of both palettes. A rim in the colour of the ground keeps text readable
// where it stands on a line.
const shared = ".plot text{paint-order:stroke;stroke-width:4px;stroke-linejoin:round}.plot .head{font-weight:bold}"

// css returns the rules of a palette. Every element has a class and draws in currentColor, so
// that the rules name each colour once. The rules apply only below .plot, because a page may
// contain several pictures beside elements of its own.
func (p *palette) css() string {
	s := fmt.Sprintf(".plot{color:%s}.plot .ground{color:%s}.plot .faint{color:%s}.plot text{stroke:%s}",
		p.ink, p.ground, p.faint, p.ground)
	for i, c := range p.colors {
		s += fmt.Sprintf(".plot .%s{color:%s}", Color(i).class(), c)
	}
	return s
}

// class returns the name of the CSS class of a colour. Colours beyond the last begin again with
// the first.
func (c Color) class() string { return "c" + strconv.Itoa(int(uint(c)%colors)) }

// The classes of elements without a colour of their own.
const (
	ink   = "ink"
	faint = "faint"
)

// canvas collects the elements of a picture. Its coordinates are pixels.
type canvas struct{ b bytes.Buffer }

func newCanvas(width, height float64, title, description string) *canvas {
	c := &canvas{}
	fmt.Fprintf(&c.b, `<svg xmlns="http://www.w3.org/2000/svg" class="plot" role="img" viewBox="0 0 %s %s" `+
		`font-family="sans-serif" font-size="13" fill="currentColor">`+"\n", pixels(math.Ceil(width)), pixels(math.Ceil(height)))
	c.element("title", title)
	if description != "" {
		c.element("desc", description)
	}
	fmt.Fprintf(&c.b, "<style>%s%s@media (prefers-color-scheme:dark){%s}</style>\n", shared, light.css(), dark.css())
	c.b.WriteString(`<rect class="ground" width="100%" height="100%"/>` + "\n")
	c.text(margin, 24, "start", ink+" head", title)
	return c
}

// element writes an element that contains only text.
func (c *canvas) element(name, text string) {
	c.b.WriteString("<" + name + ">")
	_ = xml.EscapeText(&c.b, []byte(text)) // a buffer takes everything
	c.b.WriteString("</" + name + ">\n")
}

func (c *canvas) text(x, y float64, anchor, class, s string) {
	fmt.Fprintf(&c.b, `<text class="%s" x="%s" y="%s" text-anchor="%s">`, class, pixels(x), pixels(y), anchor)
	_ = xml.EscapeText(&c.b, []byte(s)) // a buffer takes everything
	c.b.WriteString("</text>\n")
}

// line draws a line through points; style contains further attributes.
func (c *canvas) line(class, style string, points ...Point) {
	fmt.Fprintf(&c.b, `<polyline class="%s" fill="none" stroke="currentColor" %s points="`, class, style)
	for i, p := range points {
		if i > 0 {
			c.b.WriteByte(' ')
		}
		c.b.WriteString(pixels(p.X) + "," + pixels(p.Y))
	}
	c.b.WriteString(`"/>` + "\n")
}

func (c *canvas) rect(class string, x, y, width, height float64) {
	fmt.Fprintf(&c.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`+"\n",
		class, pixels(x), pixels(y), pixels(width), pixels(height))
}

// cross draws a cross of six pixels around a point.
func (c *canvas) cross(class string, p Point) {
	fmt.Fprintf(&c.b, `<path class="%s" stroke="currentColor" stroke-width="1.5" d="M%s %sl6 6m0-6l-6 6"/>`+"\n",
		class, pixels(p.X-3), pixels(p.Y-3))
}

func (c *canvas) svg() string { return c.b.String() + "</svg>\n" }

// pixels writes a coordinate to a hundredth of a pixel.
func pixels(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// textWidth estimates the width of text in pixels. A picture cannot measure the reader's font;
// the estimate is generous.
func textWidth(s string) float64 { return 7 * float64(utf8.RuneCountInString(s)) }

// titleWidth estimates the width of a title, which is bold.
func titleWidth(s string) float64 { return 1.15 * textWidth(s) }
