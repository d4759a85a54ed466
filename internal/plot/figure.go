package plot

import "math"

// The distances in pixels between the edge, the title, the names and the plotted area.
const (
	margin   = 16.0
	head     = 66.0 // above the plotted area: the title and the name of the Y axis
	foot     = 55.0 // below the plotted area: the numbers and the name of the X axis
	gap      = 8.0  // between the plotted area and text beside it
	lineStep = 15.0 // between two names, one below the other
	baseline = 4.0  // from the middle of a line of text down to its baseline
)

// drawing is a figure while it is drawn.
type drawing struct {
	*Figure
	*canvas
	x, y                     scale
	left, right, top, bottom float64 // the edges of the plotted area
	whole                    float64 // the width of the picture
}

// SVG returns the picture as a complete SVG document, which can also stand inline in HTML. The
// same figure always gives the same document.
func (f *Figure) SVG() string {
	d := f.layout()
	d.axes()
	d.guides()
	d.curves()
	for _, m := range f.Marks {
		at := d.at(m.At)
		if m.Shape == Cross {
			d.cross(m.Color.class(), at)
		} else {
			d.rect(m.Color.class(), at.X-1.5, at.Y-10, 3, 20)
		}
	}
	for _, n := range f.Notes {
		at := d.at(n.At)
		d.text(at.X, at.Y+baseline, "start", n.Color.class(), n.Text)
	}
	return d.svg()
}

// layout places the plotted area between margins that have room for the texts beside it.
func (f *Figure) layout() *drawing {
	d := &drawing{Figure: f, top: head}
	width, height := orElse(f.Width, 560), orElse(f.Height, 240)
	d.bottom = d.top + height
	xs, ys := f.values()
	d.y = f.Y.newScale(ys, d.bottom, d.top)
	if len(f.Y.Rows) > 0 {
		d.y.from, d.y.to = d.top, d.bottom
	}
	var numbers, names float64
	for i := range d.y.ticks() {
		numbers = max(numbers, textWidth(f.Y.name(d.y, i)))
	}
	for _, c := range f.Curves {
		names = max(names, textWidth(c.Name))
	}
	d.left = margin + numbers + gap
	d.right = d.left + width
	d.x = f.X.newScale(xs, d.left, d.right)
	d.whole = max(d.right+gap+names, margin+max(titleWidth(f.Title), textWidth(f.Y.Label), textWidth(f.X.Label))) + margin
	d.canvas = newCanvas(d.whole, d.bottom+foot, f.Title, f.Description)
	return d
}

func orElse(v, otherwise float64) float64 {
	if v > 0 {
		return v
	}
	return otherwise
}

// values returns all values that the axes must have room for.
func (f *Figure) values() (xs, ys []float64) {
	add := func(p Point) {
		if finite(p.X) && finite(p.Y) {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	for _, c := range f.Curves {
		for _, p := range c.Points {
			add(p)
		}
	}
	for _, m := range f.Marks {
		add(m.At)
	}
	for _, n := range f.Notes {
		add(n.At)
	}
	for _, g := range f.Guides {
		if g.Vertical {
			xs = append(xs, g.At)
		} else {
			ys = append(ys, g.At)
		}
	}
	return xs, ys
}

// name returns the text at a tick of the axis.
func (a *Axis) name(s scale, tick int) string {
	switch {
	case len(a.Rows) > 0:
		return a.Rows[tick]
	case a.Text != nil:
		return a.Text(s.ticks()[tick])
	}
	return Number(s.ticks()[tick])
}

// at returns the pixel of a point.
func (d *drawing) at(p Point) Point { return Point{d.x.at(p.X), d.y.at(p.Y)} }

func (d *drawing) axes() {
	for i, tick := range d.y.ticks() {
		y := d.y.at(tick)
		d.line(faint, thin, Point{d.left, y}, Point{d.right, y})
		d.text(d.left-gap, y+baseline, "end", ink, d.Y.name(d.y, i))
	}
	for i, tick := range d.x.ticks() {
		x := d.x.at(tick)
		d.line(faint, thin, Point{x, d.top}, Point{x, d.bottom})
		d.text(x, d.bottom+18, "middle", ink, d.X.name(d.x, i))
	}
	d.line(ink, thin, Point{d.left, d.top}, Point{d.left, d.bottom}, Point{d.right, d.bottom})
	d.text(margin, head-20, "start", ink, d.Y.Label)
	middle, half := (d.left+d.right)/2, textWidth(d.X.Label)/2
	d.text(min(max(middle, margin+half), d.whole-margin-half), d.bottom+42, "middle", ink, d.X.Label)
}

// The styles of lines.
const (
	thin   = `stroke-width="1"`
	thick  = `stroke-width="2"`
	dashed = `stroke-width="1" stroke-dasharray="5 4"`
)

func (d *drawing) guides() {
	for _, g := range d.Guides {
		if !g.Vertical {
			y := d.y.at(g.At)
			d.line(ink, dashed, Point{d.left, y}, Point{d.right, y})
			d.text(d.left+gap, y-6, "start", ink, g.Label)
			continue
		}
		x, middle := d.x.at(g.At), (d.top+d.bottom)/2
		d.line(ink, dashed, Point{x, d.top}, Point{x, d.bottom})
		if x < (d.left+d.right)/2 && textWidth(g.Label) > x-d.left-gap {
			d.text(x+gap, middle, "start", ink, g.Label)
		} else {
			d.text(x-gap, middle, "end", ink, g.Label)
		}
	}
}

func (d *drawing) curves() {
	var taken []float64 // the rows that have a name
	for _, c := range d.Curves {
		points := make([]Point, 0, len(c.Points))
		for _, p := range c.Points {
			if finite(p.X) && finite(p.Y) {
				points = append(points, d.at(p))
			}
		}
		if len(points) == 0 {
			continue
		}
		if c.Dots {
			for _, p := range points {
				d.rect(c.Color.class(), p.X-3, p.Y-3, 6, 6)
			}
		}
		d.line(c.Color.class(), thick, simplify(points)...)
		end := points[len(points)-1]
		row := free(end.Y, taken)
		taken = append(taken, row)
		d.text(d.right+gap, row+baseline, "start", c.Color.class(), c.Name)
	}
}

// free returns the row nearest to y that is far enough from the rows taken.
func free(y float64, taken []float64) float64 {
	for off := 0.0; ; off++ {
		for _, row := range []float64{y - off, y + off} {
			ok := true
			for _, t := range taken {
				ok = ok && math.Abs(row-t) >= lineStep
			}
			if ok {
				return row
			}
		}
	}
}
