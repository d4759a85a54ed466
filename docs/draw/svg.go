package main

import (
	"fmt"
	"strings"
	"time"
)

// Colours that are told apart in grey and by the colour-blind, too.
const (
	ink      = "#1f2933"
	faint    = "#9aa5b1"
	accepted = "#0b6bcb"
	refused  = "#c2410c"
)

// plot is a picture with one axis of numbers to the right and one upwards.
type plot struct {
	width, height float64 // of the area within the margins
	xMax, yMax    float64
	b             strings.Builder
}

const (
	left, right, top, bottom = 120.0, 30.0, 40.0, 50.0
)

func newPlot(title string, width, height, xMax, yMax float64) *plot {
	p := &plot{width: width, height: height, xMax: xMax, yMax: yMax}
	fmt.Fprintf(&p.b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="13" fill="%s">`+"\n",
		left+width+right, top+height+bottom, ink)
	fmt.Fprintf(&p.b, `<title>%s</title><rect width="100%%" height="100%%" fill="white"/>`+"\n", title)
	p.text(left, 22, "start", ink, title)
	return p
}

func (p *plot) x(v float64) float64 { return left + v/p.xMax*p.width }
func (p *plot) y(v float64) float64 { return top + p.height - v/p.yMax*p.height }

// text writes at a point of the picture, not of the axes.
func (p *plot) text(x, y float64, anchor, colour, s string) {
	fmt.Fprintf(&p.b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, colour, s)
}

// line joins points of the axes.
func (p *plot) line(colour, style string, points ...[2]float64) {
	fmt.Fprintf(&p.b, `<polyline fill="none" stroke="%s" %s points="`, colour, style)
	for i, pt := range points {
		if i > 0 {
			p.b.WriteByte(' ')
		}
		fmt.Fprintf(&p.b, "%.1f,%.1f", p.x(pt[0]), p.y(pt[1]))
	}
	p.b.WriteString(`"/>` + "\n")
}

// xAxis draws the axis with a number every step.
func (p *plot) xAxis(step float64, label string) {
	p.line(ink, `stroke-width="1"`, [2]float64{0, 0}, [2]float64{p.xMax, 0})
	for v := 0.0; v <= p.xMax+1e-9; v += step {
		p.line(ink, `stroke-width="1"`, [2]float64{v, 0}, [2]float64{v, p.yMax * 5 / p.height})
		p.text(p.x(v), top+p.height+18, "middle", ink, fmt.Sprintf("%g", v))
	}
	p.text(left+p.width/2, top+p.height+40, "middle", ink, label)
}

func (p *plot) yAxis(step float64, format, label string) {
	p.line(ink, `stroke-width="1"`, [2]float64{0, 0}, [2]float64{0, p.yMax})
	for v := 0.0; v <= p.yMax+1e-9; v += step {
		p.text(left-8, p.y(v)+4, "end", ink, fmt.Sprintf(format, v))
	}
	fmt.Fprintf(&p.b, `<text transform="translate(%.1f %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", left-60.0, top+p.height/2, label)
}

// mark draws what happened at x in a row: a bar for what went through, a cross for what did not.
func (p *plot) mark(x, row float64, ok bool) {
	px, py := p.x(x), p.y(row)
	if ok {
		fmt.Fprintf(&p.b, `<rect x="%.1f" y="%.1f" width="3" height="20" fill="%s"/>`+"\n", px-1.5, py-10, accepted)
		return
	}
	fmt.Fprintf(&p.b, `<path d="M%.1f %.1fl6 6m0 -6l-6 6" stroke="%s" stroke-width="1.5"/>`+"\n", px-3, py-3, refused)
}

func (p *plot) svg() string { return p.b.String() + "</svg>\n" }

func seconds(d time.Duration) float64 { return d.Seconds() }
