// Package plot draws numbers as SVG pictures.
//
// A [Figure] draws curves and marks over two axes. Fill in the struct and call its SVG method.
// [Level] and [Steps] turn the changes of a quantity into a curve that is exact between the
// changes.
//
// The pictures follow the reader's light or dark colour scheme. Their title and description are
// readable by screen readers. Any text may be given for titles and names; the package escapes it.
package plot

// Point is a point of a curve, in the units of the axes.
type Point struct{ X, Y float64 }

// Figure is a picture of curves and marks over two axes. The zero value is an empty picture.
type Figure struct {
	Title       string // stands above the picture; screen readers read it
	Description string // screen readers read it after the title; "" for none

	// Width and Height are the size of the plotted area in pixels, without its margins. 0 means
	// 560 and 240.
	Width, Height float64

	X, Y   Axis
	Guides []Guide
	Curves []Curve
	Marks  []Mark
	Notes  []Note
}

// Axis describes one axis of a [Figure]. The zero value is a linear axis that has room for all
// values.
type Axis struct {
	Label string

	// Max is the end of a linear axis, which begins at 0. The axis is longer if a value lies
	// beyond Max. Values below 0 are drawn at 0.
	Max float64
	// Step is the distance between the numbers of a linear axis; 0 chooses one.
	Step float64
	// Log makes the axis logarithmic, from a power of ten to a power of ten around all positive
	// values. Values that are not positive are drawn at its lower end.
	Log bool
	// Rows replaces the numbers by names. The value 0 is the middle of the first row, 1 that of
	// the second. On the Y axis the first row is the uppermost. Max, Step and Log have no effect.
	Rows []string
	// Text writes the numbers; nil means [Number].
	Text func(float64) string
}

// Color names a colour that has one shade for light and one for dark backgrounds.
type Color int

// The colours are distinct for colour-blind readers in this order: a picture of two curves uses
// Blue and Orange.
const (
	Blue Color = iota
	Orange
	Green
	Violet
	Grey
	Brown

	colors = iota
)

// Curve is a line through points, which must be in the order of X. A vertical step is two points
// with the same X.
//
// The drawn line is at most half a pixel above or below the line through all the points. Points
// that make no visible difference are left out, so a curve of many points remains a small file.
// Points that are NaN or infinite are left out.
type Curve struct {
	Name   string // stands at the right end of the curve
	Color  Color
	Points []Point
	Dots   bool // draws a dot on each point
}

// Guide is a dashed line across the picture, at a value of the Y axis or, if Vertical is set, of
// the X axis.
type Guide struct {
	At       float64
	Vertical bool
	Label    string
}

// Shape is the form of a [Mark].
type Shape int

// The shapes of marks: an upright bar and a cross.
const (
	Bar Shape = iota
	Cross
)

// Mark is a single event at a point.
type Mark struct {
	At    Point
	Shape Shape
	Color Color
}

// Note is text to the right of a point.
type Note struct {
	At    Point
	Text  string
	Color Color
}
