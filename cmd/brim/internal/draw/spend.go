package main

import (
	"context"
	"fmt"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/internal/plot"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/memledger"
)

// The rules that leakyOrRolling compares, and the time that it simulates.
const (
	spendDays   = 60
	spendWindow = 30 * 24 * time.Hour
)

var spendLimit = spend.Money{Minor: 1000_00, Currency: "EUR"}

// leakyOrRolling shows the total that a card spends if it spends the whole remaining amount
// every hour, under a leaky and under a rolling rule of 1,000.00 EUR in 30 days.
func leakyOrRolling(ctx context.Context) (string, error) {
	leaky, err := spent(ctx, spend.Leaky("month", spendLimit, spendWindow))
	if err != nil {
		return "", err
	}
	rolling, err := spent(ctx, spend.Rolling("month", spendLimit, spendWindow))
	if err != nil {
		return "", err
	}
	first := spend.Money{Minor: leaky[30*24-1], Currency: spendLimit.Currency}
	f := plot.Figure{
		Title: "EUR that a card spends which spends all it may, hour by hour",
		Description: fmt.Sprintf("A leaky bucket of 1,000 in 30 days lets %v through in its first 30 days. "+
			"A rolling window of 30 days lets 1,000 through in each 30 days.", first),
		Width: 630, Height: 300,
		X:      plot.Axis{Label: "days", Max: spendDays, Step: 15},
		Y:      plot.Axis{Label: "EUR", Max: 3000, Step: 1000},
		Guides: []plot.Guide{{At: 30, Vertical: true}},
		Curves: []plot.Curve{
			{Name: "leaky", Color: plot.Orange, Points: course(leaky)},
			{Name: "rolling", Points: course(rolling)},
		},
		Notes: []plot.Note{
			{
				At:    plot.Point{X: 2, Y: 2150},
				Color: plot.Orange,
				Text:  fmt.Sprintf("leaky: %v in the first 30 days", first),
			},
			{At: plot.Point{X: 2, Y: 800}, Text: fmt.Sprintf("rolling: at most %v in any 30 days", spendLimit)},
		},
	}
	return f.SVG(), nil
}

// spent returns the total spent by the end of each hour, in minor units.
func spent(ctx context.Context, rule spend.Rule) ([]int64, error) {
	clock := new(simulate.Clock)
	l := memledger.New(&memledger.Options{Clock: clock.Now})
	b, err := spend.New(ctx, l, spend.Budget{Name: "cards", Currency: spendLimit.Currency, Rules: []spend.Rule{rule}}, nil)
	if err != nil {
		return nil, err
	}
	var all []int64
	total := int64(0)
	for hour := range spendDays * 24 {
		clock.Set(simulate.Start.Add(time.Duration(hour) * time.Hour))
		list, err := b.Remaining(ctx, "card")
		if err != nil {
			return nil, err
		}
		if room := list[0].Remaining; room.Minor > 0 {
			d, err := b.Charge(ctx, spend.Request{ID: fmt.Sprint(hour), Account: "card", Amount: room})
			if err != nil || !d.Approved {
				return nil, fmt.Errorf("hour %d: the remaining %v were declined: %w", hour, room, err)
			}
			total += room.Minor
		}
		all = append(all, total)
	}
	return all, nil
}

// course returns the curve of hourly totals, in days and whole units of money.
func course(totals []int64) []plot.Point {
	changes := []plot.Point{{}}
	for hour, minor := range totals {
		changes = append(changes, plot.Point{X: float64(hour) / 24, Y: float64(minor) / 100})
	}
	return plot.Steps(changes, spendDays)
}
