package plot

import (
	"math"
	"math/rand/v2"
	"testing"
)

// bucket is a leaky bucket that is computed step by step, as the oracle of TestLevelIsExact.
type bucket struct {
	changes []Point
	rate    float64
}

// at returns the level just after X.
func (b *bucket) at(x float64) float64 {
	level := 0.0
	for _, c := range b.changes {
		if c.X > x {
			break
		}
		level = max(0, c.Y-b.rate*(x-c.X))
	}
	return level
}

// extent returns the lowest and highest level from one X to another.
func (b *bucket) extent(from, to float64) (low, high float64) {
	low, high = min(b.at(from), b.at(to)), max(b.at(from), b.at(to))
	before := Point{}
	for _, c := range b.changes {
		if from <= c.X && c.X <= to {
			fallen := max(0, before.Y-b.rate*(c.X-before.X))
			low, high = min(low, fallen, c.Y), max(high, fallen, c.Y)
		}
		before = c
	}
	return low, high
}

// randomBucket returns a bucket of capacity 100 with n changes in the first 1000 units of X.
func randomBucket(r *rand.Rand, n int) *bucket {
	b := &bucket{rate: math.Exp(10*r.Float64() - 5), changes: []Point{{}}}
	for x := 0.0; n > 0; n-- {
		x += r.ExpFloat64() * 1000 / float64(n+1) / 2
		if x >= 1000 {
			break
		}
		b.changes = append(b.changes, Point{x, min(100, b.at(x)+100*r.Float64()*r.Float64())})
	}
	return b
}

func TestLevelIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const width, height, until = 500.0, 200.0, 1000.0
	figures := 60
	if testing.Short() {
		figures = 12
	}
	for range figures {
		b := randomBucket(r, 1+r.IntN(2000))
		f := Figure{
			Width: width, Height: height, X: Axis{Max: until}, Y: Axis{Max: 100},
			Curves: []Curve{{Points: Level(b.changes, b.rate, until)}},
		}
		d := f.layout()
		drawn := curvesOf(t, f.SVG())[0]
		for px := 0.0; px <= width; px += 0.5 {
			low, high := extent(drawn, d.left+px)
			// A coordinate is written to a hundredth of a pixel. A level may jump or fall steeply
			// within that much of X, so every level within it is true.
			from, to := max(0, (px-0.01)/width*until), min(until, (px+0.01)/width*until)
			lowest, highest := b.extent(from, to)
			if trueLow, trueHigh := d.y.at(highest), d.y.at(lowest); !(low >= trueLow-1 && high <= trueHigh+1) {
				t.Fatalf(
					"pixel %v: the level is drawn from %v to %v, and truly from %v to %v; leak rate %v, %d changes",
					px, low, high, trueLow, trueHigh, b.rate, len(b.changes))
			}
		}
	}
}

func TestSimplify(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var points []Point
		p, roughness := Point{}, math.Exp(6*r.Float64()-4)
		for range 1 + r.IntN(500) {
			points = append(points, p)
			if r.IntN(3) > 0 {
				p.X += r.Float64()
			}
			p.Y += roughness * (r.Float64() - 0.5)
		}
		kept := simplify(points)
		if kept[0] != points[0] || kept[len(kept)-1] != points[len(points)-1] {
			t.Fatalf("the line from %v to %v became one from %v to %v", points[0], points[len(points)-1], kept[0],
				kept[len(kept)-1])
		}
		if len(points) == 1 || points[0].X == points[len(points)-1].X {
			continue
		}
		for _, p := range points {
			if low, high := extent(kept, p.X); !(low-tolerance-1e-6 <= p.Y && p.Y <= high+tolerance+1e-6) {
				t.Fatalf("the simplified line is at %v to %v at the point %v", low, high, p)
			}
		}
	}
	const many = 100_000
	long := make([]Point, many)
	for i := range long {
		x := float64(i) / many * 500
		long[i] = Point{x, 100 + 50*math.Sin(x/50)}
	}
	if kept := simplify(long); len(kept) > 200 {
		t.Errorf("%d points of a smooth curve are kept; a hundred draw it", len(kept))
	}
}
