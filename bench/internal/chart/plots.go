package chart

import "math"

// Bar is one bar of [Bars].
type Bar struct {
	Name  string
	Value float64
	Group int // bars of a group have a colour
}

// Bars draws horizontal bars over a logarithmic axis, because a decision in memory and one on a disk are a thousand times
// apart. The bars stand in the order given; groups names the colours.
func Bars(title, axis string, groups []string, bars []Bar) string {
	const left, plot, right, top, row = 250.0, 480.0, 70.0, 60.0, 24.0
	height := row * float64(len(bars))
	c := newCanvas(left+plot+right, top+height+55, title)
	for i, name := range groups {
		x := left + float64(i)*130
		c.rect(x, 36, 12, 12, colour(i))
		c.text(x+18, 47, "start", ink, name)
	}
	values := make([]float64, len(bars))
	for i, b := range bars {
		values[i] = b.Value
	}
	s := newScale(values, left, left+plot)
	for _, tick := range s.ticks() {
		c.line(faint, 1, [2]float64{s.at(tick), top}, [2]float64{s.at(tick), top + height})
		c.text(s.at(tick), top+height+18, "middle", ink, Number(tick))
	}
	for i, b := range bars {
		y := top + row*float64(i)
		c.text(left-10, y+row/2+4, "end", ink, b.Name)
		c.rect(left, y+4, max(1, s.at(b.Value)-left), row-8, colour(b.Group))
		c.text(max(left+1, s.at(b.Value))+6, y+row/2+4, "start", ink, Number(b.Value))
	}
	c.line(ink, 1, [2]float64{left, top}, [2]float64{left, top + height})
	c.text(left+plot/2, top+height+42, "middle", ink, axis)
	return c.svg()
}

// Line is one line of [Lines]: points of x and y, both positive.
type Line struct {
	Name   string
	Points [][2]float64
}

// Lines draws lines over two logarithmic axes, named at their right ends.
func Lines(title, xAxis, yAxis string, lines []Line) string {
	const left, plot, right, top, height = 80.0, 480.0, 190.0, 60.0, 300.0
	c := newCanvas(left+plot+right, top+height+55, title)
	var xs, ys []float64
	for _, l := range lines {
		for _, p := range l.Points {
			xs, ys = append(xs, p[0]), append(ys, p[1])
		}
	}
	x, y := newScale(xs, left, left+plot), newScale(ys, top+height, top)
	for _, tick := range y.ticks() {
		c.line(faint, 1, [2]float64{left, y.at(tick)}, [2]float64{left + plot, y.at(tick)})
		c.text(left-8, y.at(tick)+4, "end", ink, Number(tick))
	}
	for _, tick := range x.ticks() {
		c.line(faint, 1, [2]float64{x.at(tick), top}, [2]float64{x.at(tick), top + height})
		c.text(x.at(tick), top+height+18, "middle", ink, Number(tick))
	}
	c.text(16, 47, "start", ink, yAxis)
	c.text(left+plot/2, top+height+42, "middle", ink, xAxis)
	var taken []float64
	for i, l := range lines {
		if len(l.Points) == 0 {
			continue
		}
		points := make([][2]float64, len(l.Points))
		for k, p := range l.Points {
			points[k] = [2]float64{x.at(p[0]), y.at(p[1])}
			c.rect(points[k][0]-3, points[k][1]-3, 6, 6, colour(i))
		}
		c.line(colour(i), 2, points...)
		end := points[len(points)-1]
		row := free(end[1], taken)
		taken = append(taken, row)
		c.text(left+plot+10, row+4, "start", colour(i), l.Name)
	}
	return c.svg()
}

// free returns the row nearest to y that is far enough from those that are taken.
func free(y float64, taken []float64) float64 {
	const apart = 15
	for off := 0.0; ; off++ {
		for _, row := range []float64{y - off, y + off} {
			ok := true
			for _, t := range taken {
				ok = ok && math.Abs(row-t) >= apart
			}
			if ok {
				return row
			}
		}
	}
}

func colour(i int) string { return colours[i%len(colours)] }
