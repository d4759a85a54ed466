// Command drawspend draws docs/spend.svg: what a card that always spends as much as it may gets out of two rules of 1,000.00 in 30
// days, a leaky bucket and a rolling window. The curves are what package spend decides, hour by hour.
//
//	go run ./docs/drawspend > docs/spend.svg
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

func main() {
	if err := draw(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "drawspend:", err)
		os.Exit(1)
	}
}

const (
	days   = 60
	window = 30 * 24 * time.Hour
	limit  = 1000_00
)

// spent is what has been let through by the end of each hour, in minor units.
func spent(rule spend.Rule) ([]int64, error) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := memledger.New(&memledger.Options{Clock: func() time.Time { return now }})
	b, err := spend.New(l, spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{rule}}, nil)
	if err != nil {
		return nil, err
	}
	var all []int64
	total := int64(0)
	for hour := range days * 24 {
		list, err := b.Remaining(context.Background(), "card")
		if err != nil {
			return nil, err
		}
		if room := list[0].Remaining; room.Minor > 0 {
			d, err := b.Charge(context.Background(), spend.Request{ID: fmt.Sprint(hour), Account: "card", Amount: room})
			if err != nil || !d.Approved {
				return nil, fmt.Errorf("what remains was declined: %w", err)
			}
			total += room.Minor
		}
		all = append(all, total)
		now = now.Add(time.Hour)
	}
	return all, nil
}

// Sizes of the drawing.
const (
	width, height = 740, 400
	left, bottom  = 70, 350
	perDay        = 10.5
	perEuro       = 0.1

	leakyColor, rollingColor = "#c2410c", "#0b6bcb"
)

func x(hour int) float64    { return left + float64(hour)/24*perDay }
func y(minor int64) float64 { return bottom - float64(minor)/100*perEuro }

func path(curve []int64) string {
	var s strings.Builder
	fmt.Fprintf(&s, "M%.1f %.1f", x(0), y(0))
	for hour, total := range curve {
		if hour == 0 || total != curve[hour-1] {
			before := int64(0)
			if hour > 0 {
				before = curve[hour-1]
			}
			fmt.Fprintf(&s, "L%.1f %.1fL%.1f %.1f", x(hour), y(before), x(hour), y(total))
		}
	}
	fmt.Fprintf(&s, "L%.1f %.1f", x(len(curve)), y(curve[len(curve)-1]))
	return s.String()
}

func draw(w io.Writer) error {
	eur := spend.Money{Minor: limit, Currency: "EUR"}
	leaky, err := spent(spend.Leaky("month", eur, window))
	if err != nil {
		return err
	}
	rolling, err := spent(spend.Rolling("month", eur, window))
	if err != nil {
		return err
	}
	var s strings.Builder
	colored := func(x, y float64, anchor, color, words string) {
		fmt.Fprintf(&s, `<text x="%.0f" y="%.0f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, color, words)
	}
	text := func(x, y float64, anchor, words string) { colored(x, y, anchor, "#000", words) }
	line := func(x1, y1, x2, y2 float64, style string) {
		fmt.Fprintf(&s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
	}
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n", width, height)
	fmt.Fprintf(&s, "<title>A leaky bucket of 1,000 in 30 days lets about 2,000 through in its first 30 days; a rolling window lets 1,000</title>\n")
	fmt.Fprintf(&s, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	for euros := range int64(4) {
		line(left, y(euros*1000_00), x(days*24), y(euros*1000_00), `stroke="#ddd"`)
		text(left-8, y(euros*1000_00)+4, "end", fmt.Sprint(euros*1000))
	}
	for day := 0; day <= days; day += 15 {
		text(x(day*24), bottom+18, "middle", fmt.Sprint("day ", day))
	}
	fmt.Fprintf(&s, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path(leaky), leakyColor)
	fmt.Fprintf(&s, `<path d="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", path(rolling), rollingColor)
	line(x(30*24), y(0), x(30*24), y(3000_00), `stroke="#999" stroke-dasharray="4 4"`)
	colored(x(2*24), y(2150_00), "start", leakyColor, fmt.Sprintf("leaky: %v in the first 30 days", spend.Money{Minor: leaky[30*24-1], Currency: "EUR"}))
	colored(x(2*24), y(800_00), "start", rollingColor, "rolling: never more than 1000.00 EUR in any 30 days")
	text(left, 20, "start", "EUR that a card gets which always spends all it may, hour by hour")
	s.WriteString("</svg>\n")
	_, err = io.WriteString(w, s.String())
	return err
}
