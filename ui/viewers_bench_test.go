package ui_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
	"github.com/brimgo/brim/ui"
)

// nowhere is the browser of a viewer who does not read.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return io.Discard.Write(p) }
func (n nowhere) WriteHeader(int)             {}

// BenchmarkViewers measures 16 callers who decide 1,000 times a second in all over 10^6 buckets in
// memory, without and with 20 viewers whose pages update every two seconds. The two are measured
// alternately, in trials of 25 seconds, in which a listing or two run; p99-ratio is the median of
// the ratios of neighbours.
// Run it with -benchtime 3x, for three trials of each.
func BenchmarkViewers(b *testing.B) {
	const buckets, callers, viewers, rate, trial = 1_000_000, 16, 20, 1000, 25 * time.Second
	keys := manyKeys(buckets)
	db := memory.New(nil)
	defer db.Close()
	rec, err := ui.NewRecorder(nil)
	if err != nil {
		b.Fatal(err)
	}
	s, err := rec.Wrap(db)
	if err != nil {
		b.Fatal(err)
	}
	limit := store.Limit{Capacity: 100, LeakRate: 0.001}
	random := rand.New(rand.NewPCG(16, 20))
	for _, key := range keys {
		if _, err := db.Fill(b.Context(), store.Op{Bucket: limit.For(key), Amount: 100 * random.Float64()}); err != nil {
			b.Fatal(err)
		}
	}
	page, err := ui.New(s, func(*http.Request) ui.Access { return ui.Look }, &ui.Options{Recorder: rec})
	if err != nil {
		b.Fatal(err)
	}
	defer page.Close()
	look := func(i int) {
		path := []string{"/", "/levels", "/levels?prefix=key:0001", "/levels?from=50", "/bucket?key=key:00000042"}[i%5]
		page.ServeHTTP(nowhere{make(http.Header)}, httptest.NewRequest(http.MethodGet, path, nil))
	}
	order, err := load.Draw("uniform", buckets, 1, 0, 16)
	if err != nil {
		b.Fatal(err)
	}
	look(1) // the first listing, which allocates most, is that of the first viewer

	p99 := map[int][]float64{}
	b.ResetTimer()
	err = load.Interleave(b.N, 2, func(_, subject int) error {
		ctx, cancel := context.WithCancel(b.Context())
		var watching sync.WaitGroup
		for i := range viewers * subject {
			watching.Go(func() {
				select {
				case <-time.After(time.Duration(i) * 2 * time.Second / viewers):
				case <-ctx.Done():
					return
				}
				for {
					look(i)
					select {
					case <-time.After(2 * time.Second):
					case <-ctx.Done():
						return
					}
				}
			})
		}
		result, err := load.RunOpen(ctx, load.Options{
			Callers: callers, For: trial, Order: order,
			Decide: func(ctx context.Context, key int, _ bool) (bool, error) {
				st, err := s.Fill(ctx, store.Op{Bucket: limit.For(keys[key]), Amount: 1})
				return st.Accepted, err
			},
		}, rate)
		cancel()
		watching.Wait()
		if err != nil {
			return err
		}
		p99[subject] = append(p99[subject], result.Took.Quantile(0.99))
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	ratio, _ := load.Ratio(p99[1], p99[0])
	b.ReportMetric(ratio, "p99-ratio")
	b.ReportMetric(load.Median(p99[0]), "ms-p99-alone")
	b.ReportMetric(load.Median(p99[1]), "ms-p99-viewed")
	b.Logf("p99 in ms, alone: %.3f, with viewers: %.3f", p99[0], p99[1])
}
