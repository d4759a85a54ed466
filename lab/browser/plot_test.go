package browser

import (
	"math"
	"math/rand/v2"
	"sort"
	"strconv"
	"testing"
	"time"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/store"
)

// drawn is the curve of a plot in pixels of the screen, and the frame of its plotted area.
type drawn struct {
	Points                   [][2]float64
	Left, Right, Top, Bottom float64
}

// curve reads the curve from the page as it is on the screen. The frame is that of the axes.
const curve = `(() => {
	const svg = document.querySelector("svg.plot");
	const screen = (line) => [...line.points].map((p) => { const q = p.matrixTransform(line.getScreenCTM()); return [q.x, q.y] });
	const lines = [...svg.querySelectorAll("polyline")];
	const axes = screen(lines.find((l) => l.classList.contains("ink") && l.points.length === 3));
	return {Points: screen(lines.find((l) => l.getAttribute("stroke-width") === "2")),
		Left: axes[1][0], Right: axes[2][0], Top: axes[0][1], Bottom: axes[1][1]};
})()`

// TestPlotIsExact compares the curve on the screen with the level of the record at every column of
// pixels: within a pixel to the left and right, the curve is within a pixel of the level, and the
// level within a pixel of the curve.
func TestPlotIsExact(t *testing.T) {
	for _, width := range []int64{360, 768, 1280} {
		for _, mean := range []time.Duration{40 * time.Second, 3 * time.Second, 200 * time.Millisecond} {
			p := newProgram(t)
			limit := brim.Limit{Capacity: 100, LeakRate: 1}
			random := rand.New(rand.NewPCG(16, uint64(mean)))
			type change struct {
				at     time.Time
				record store.Record
			}
			var changes []change
			for time.Duration(p.clock.Load())*time.Microsecond < 10*time.Minute {
				p.advance(time.Duration(random.ExpFloat64() * float64(mean)))
				st, err := p.lim.TryFillup(t.Context(), limit.For("k"), random.ExpFloat64()*2*mean.Seconds())
				if err != nil {
					t.Fatal(err)
				}
				changes = append(changes, change{st.At, store.Record{Level: st.Level, Time: st.At.UnixMicro(), Limit: limit}})
			}
			p.advance(1234 * time.Millisecond)
			now := p.now.Add(time.Duration(p.clock.Load()) * time.Microsecond)
			b := newTab(t, look{width: width})
			b.open(p.page("bucket?key=k"))
			d := evaluate[drawn](b, curve)
			// The number at the top of the axis ends the scale.
			top, err := strconv.ParseFloat(evaluate[string](b, `[...document.querySelectorAll("svg.plot text[text-anchor=end]")].map((e) => Number(e.textContent)).reduce((a, b) => Math.max(a, b)).toString()`), 64)
			if err != nil || top != limit.Capacity {
				t.Fatalf("the axis ends at %v, %v", top, err)
			}
			begin := now.Add(-10 * time.Minute).Truncate(time.Minute)
			at := func(x float64) (y float64) { // of the record, in pixels
				moment := begin.Add(time.Duration((x - d.Left) / (d.Right - d.Left) * float64(11*time.Minute)))
				i := sort.Search(len(changes), func(i int) bool { return changes[i].at.After(moment) }) - 1
				level := changes[max(0, i)].record.LevelAt(moment.UnixMicro())
				return d.Bottom - level/top*(d.Bottom-d.Top)
			}
			// The record just before and at each of its changes, as points of a line.
			var record [][2]float64
			for _, c := range changes {
				x := d.Left + c.at.Sub(begin).Seconds()/660*(d.Right-d.Left)
				record = append(record, [2]float64{x, at(x - 1e-4)}, [2]float64{x, at(x + 1e-4)})
			}
			worst, columns := 0.0, 0
			for x := math.Ceil(d.Points[0][0]); x <= d.Points[len(d.Points)-1][0]; x++ {
				low, high := extent(d.Points, x-1, x+1)
				worst = max(worst, low-at(x), at(x)-high)
				drawnLow, drawnHigh := extent(d.Points, x, x)
				low, high = extent(record, x-1, x+1)
				for _, edge := range []float64{x - 1, x, x + 1} {
					low, high = min(low, at(edge)), max(high, at(edge))
				}
				worst = max(worst, low-drawnLow, drawnHigh-high)
				columns++
			}
			t.Logf("%d pixels wide, a call in %v: %d columns, at most %.3f pixels off", width, mean, columns, max(0, worst))
			if worst > 1 || columns < 400 {
				t.Errorf("the curve is %.2f pixels off in %d columns", worst, columns)
			}
		}
	}
}

// extent returns the lowest and the highest Y of a line from one X to another.
func extent(points [][2]float64, from, to float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	add := func(y float64) { low, high = min(low, y), max(high, y) }
	for i, p := range points {
		if from <= p[0] && p[0] <= to {
			add(p[1])
		}
		for _, x := range []float64{from, to} {
			if i+1 < len(points) && p[0] < x && x < points[i+1][0] {
				add(p[1] + (points[i+1][1]-p[1])*(x-p[0])/(points[i+1][0]-p[0]))
			}
		}
	}
	return low, high
}
