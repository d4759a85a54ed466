package plot

import "math"

// Level returns the curve of a level that leaks. At each change the level becomes Y. Then the
// level falls by leakRate per unit of X, and not below 0, until the next change. The curve ends
// at until, unless the last change is later.
//
// The changes must be in the order of X. The returned points are the corners of the level, so the
// line through them is exact.
func Level(changes []Point, leakRate, until float64) []Point {
	var corners []Point
	for i, c := range changes {
		if i > 0 {
			corners = leak(corners, leakRate, c.X)
		}
		corners = append(corners, c)
	}
	if n := len(changes); n > 0 && until > changes[n-1].X {
		corners = leak(corners, leakRate, until)
	}
	return corners
}

// leak appends the corners of a level that leaks from the last corner to the time to.
func leak(corners []Point, rate, to float64) []Point {
	from := corners[len(corners)-1]
	if rate > 0 && from.Y > 0 {
		if empty := from.X + from.Y/rate; empty < to {
			from = Point{empty, 0}
			corners = append(corners, from)
		}
	}
	return append(corners, Point{to, max(0, from.Y-rate*(to-from.X))})
}

// Steps returns the curve of a value that changes at once and is constant in between, such as a
// total or a rate that is counted per interval. It is a [Level] that does not leak.
func Steps(changes []Point, until float64) []Point { return Level(changes, 0, until) }

// tolerance is the vertical distance in pixels by which the simplified line may miss a point.
const tolerance = 0.4

// simplify leaves out points that lie within the tolerance of the line through the other points.
// The points are in pixels and in the order of X. The time is in proportion to the number of
// points.
func simplify(points []Point) []Point {
	if len(points) < 3 {
		return points
	}
	last := points[0]
	kept := []Point{last}
	keep := func(p Point) { kept, last = append(kept, p), p }
	// A line that leaves last with a slope from low to high passes every point since last.
	low, high := math.Inf(-1), math.Inf(1)
	for i, p := range points[1:] {
		before := points[i]
		if !reaches(last, p, low, high) {
			if before != last {
				keep(before)
			}
			if before.X == p.X && math.Abs(before.Y-p.Y) > tolerance {
				keep(p)
			}
			low, high = math.Inf(-1), math.Inf(1)
		}
		if width := p.X - last.X; width > 0 {
			low = max(low, (p.Y-tolerance-last.Y)/width)
			high = min(high, (p.Y+tolerance-last.Y)/width)
		}
	}
	if end := points[len(points)-1]; end != last {
		keep(end)
	}
	return kept
}

// reaches reports whether the straight line between two points has a slope from low to high. A
// vertical line counts if it is no longer than the tolerance.
func reaches(from, to Point, low, high float64) bool {
	width, height := to.X-from.X, to.Y-from.Y
	if width <= 0 {
		return math.Abs(height) <= tolerance
	}
	slope := height / width
	return low <= slope && slope <= high
}
