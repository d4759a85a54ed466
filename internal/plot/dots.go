package plot

// DotPlot is a picture with a dot for each value, by rows, over a logarithmic axis. It shows values
// that differ by a factor of a thousand. Bars would mislead there: their lengths are in no
// proportion. See W. S. Cleveland, "Graphical Methods for Data Presentation", The American
// Statistician 38(4), 1984.
type DotPlot struct {
	Title       string // stands above the picture; screen readers read it
	Description string // screen readers read it after the title; "" for none
	Axis        string // names the unit of the values
	Groups      []string
	Rows        []Row // from top to bottom
}

// Row is one value of a [DotPlot].
type Row struct {
	Name  string
	Value float64
	Group int // the index in Groups; the dots of a group share a colour
}

// SVG returns the picture as a complete SVG document, which can also stand inline in HTML. The
// same values always give the same document.
func (b *DotPlot) SVG() string {
	const width, height = 480.0, 24.0 // of the plotted area, and of a row
	var names, groups float64
	values := make([]float64, len(b.Rows))
	for i, r := range b.Rows {
		names, values[i] = max(names, textWidth(r.Name)), r.Value
	}
	for _, name := range b.Groups {
		groups = max(groups, textWidth(name))
	}
	key := margin + groups + 2*gap // the width of an entry of the key
	left, bottom := margin+names+gap, head+height*float64(len(b.Rows))
	right := left + width
	beside := gap + textWidth("0.0001") // the longest number
	whole := max(right+beside, left+key*float64(len(b.Groups)), margin+titleWidth(b.Title)) + margin
	c := newCanvas(whole, bottom+foot, b.Title, b.Description)
	for i, name := range b.Groups {
		x := left + key*float64(i)
		c.rect(Color(i).class(), x, 36, 12, 12)
		c.text(x+18, 47, "start", ink, name)
	}
	s := logScale(values, left, right)
	for _, tick := range s.ticks() {
		c.line(faint, thin, Point{s.at(tick), head}, Point{s.at(tick), bottom})
		c.text(s.at(tick), bottom+18, "middle", ink, Number(tick))
	}
	for i, r := range b.Rows {
		y, x := head+height*(float64(i)+0.5), max(left, s.at(r.Value)) // 0 has no place on the axis
		c.text(left-gap, y+baseline, "end", ink, r.Name)
		c.line(faint, thin, Point{left, y}, Point{x, y})
		c.rect(Color(r.Group).class(), x-4, y-4, 8, 8)
		c.text(x+10, y+baseline, "start", ink, Number(r.Value))
	}
	c.line(ink, thin, Point{left, head}, Point{left, bottom})
	c.text((left+right)/2, bottom+42, "middle", ink, b.Axis)
	return c.svg()
}
