package cut

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/wire"
	"github.com/brimgo/brim/lab/internal/attack"
	"github.com/brimgo/brim/lab/internal/serverload"
)

func TestMain(m *testing.M) { pgtest.Main(redistest.With(m)) }

// TestCut cuts the connections of each store.
func TestCut(t *testing.T) {
	seed, err := attack.NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subjects {
		for _, mode := range s.settings {
			t.Run(s.name+"/"+mode.name, func(t *testing.T) { testCut(t, seed, s, mode) })
		}
	}
}

func testCut(t *testing.T, seed attack.Seed, s subject, mode setting) {
	row := attack.Begin(t, "cut", s.name+", "+mode.name, seed)
	rigs := make([]*rig, attack.Pick(attack.Budget{Count: 2}, attack.Budget{Count: 4}).Count)
	for i := range rigs {
		rigs[i] = s.open(t, mode.value, "")
	}
	began, exchanges, all := time.Now(), 0, tally{}
	for _, e := range s.exchanges(rigs[0]) {
		t.Run(e.name, func(t *testing.T) {
			repeat := seed.Repeat("cut", fmt.Sprintf("TestCut/%s/%s/%s$", s.name, mode.name, strings.ReplaceAll(e.name, " ", "_")))
			lengths, err := e.measure(t.Context(), rigs[0])
			if err != nil {
				t.Fatalf("%v\nrepeat: %s", err, repeat)
			}
			list := cutsOf(lengths, mode.whole, seed.Rand())
			n, f, err := e.cutAll(t.Context(), rigs, list)
			n.bytes, exchanges = lengths[0]+lengths[1], exchanges+1
			all.add(n)
			if err != nil {
				t.Fatalf("%v\nrepeat: %s", err, repeat)
			}
			if f != nil {
				row.Found = string(f.Verdict)
				t.Errorf("%v\nrepeat: %s", f, repeat)
			}
			if n.short > 0 {
				t.Logf("%d of %d cuts did not come in %d calls each, which all ended before", n.short, len(list), tries)
			}
			if f == nil && (n.cuts+n.short < len(list) || n.short > len(list)/50+1) {
				t.Errorf("%d of %d cuts came, and %d were beyond the end\nrepeat: %s", n.cuts, len(list), n.short, repeat)
			}
		})
	}
	row.Often = fmt.Sprintf("%d cuts, after %d of %d bytes of %d exchanges", all.cuts, all.cut, all.bytes, exchanges)
	t.Logf("%s in %v, found: %s; seed %d", row.Often, time.Since(began), row.Found, seed)
}

// measure makes the call without a cut and returns the bytes that it sends and receives. The
// first call of a store may ask more, such as what kind of table it has: cuts there would not come
// in the calls after it. So measure calls again until a call is no shorter than the one before it.
func (e exchange) measure(ctx context.Context, r *rig) (lengths [2]int, err error) {
	for before := -1; ; before = lengths[0] + lengths[1] {
		k := &cut{at: -1}
		if f, err := e.run(ctx, r, k); f != nil || err != nil {
			return k.counts, fmt.Errorf("without a cut: %v, %w", f, err)
		}
		lengths = k.counts
		if before >= 0 && lengths[0]+lengths[1] >= before {
			return lengths, nil
		}
	}
}

// cutsOf returns the cuts of an exchange: a sample, or in the night one after every byte of both
// directions. The modes take turns, and the seed says which one begins. Partitions take their
// time, so they are a sample in the night, too, and so are delays, after which all goes on. Without
// whole, all cuts are a sample, which saves hours.
func cutsOf(lengths [2]int, whole bool, r *rand.Rand) []*cut {
	sample := func(modes ...mode) *cut {
		way := wire.Direction(r.IntN(2))
		return &cut{mode: modes[r.IntN(len(modes))], way: way, at: r.IntN(lengths[way] + 1)}
	}
	if !attack.Night() {
		list := []*cut{sample(closed), sample(reset, half, late)}
		if r.IntN(20) == 0 {
			list = append(list, sample(partition))
		}
		return list
	}
	var list []*cut
	breaks := []mode{closed, reset, half}
	turn := r.IntN(len(breaks))
	for way, n := range lengths {
		for at := range n + 1 {
			list = append(list, &cut{mode: breaks[(turn+at)%len(breaks)], way: wire.Direction(way), at: at})
		}
	}
	if !whole {
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:min(200, len(list))]
	}
	for range 5 {
		list = append(list, sample(late), sample(late), sample(partition))
	}
	return list
}

// tally counts the cuts of exchanges.
type tally struct {
	cuts  int // that came
	short int // that did not, because the exchange ended before
	cut   int // bytes after which a connection was cut
	bytes int
}

func (n *tally) add(o tally) {
	n.cuts, n.short, n.cut, n.bytes = n.cuts+o.cuts, n.short+o.short, n.cut+o.cut, n.bytes+o.bytes
}

// tries is the number of calls for a cut that does not come. The length of an exchange may vary.
const tries = 5

// until makes calls until the cut comes.
func (e exchange) until(ctx context.Context, r *rig, k *cut) (*serverload.Finding, error) {
	for n := 1; ; n++ {
		k.counts = [2]int{}
		f, err := e.run(ctx, r, k)
		if f != nil || err != nil || k.done || n == tries {
			return f, err
		}
	}
}

// cutAll cuts the call at each place of the list. It returns the number of cuts that came, and the
// first finding.
func (e exchange) cutAll(ctx context.Context, rigs []*rig, list []*cut) (n tally, found *serverload.Finding, err error) {
	type place struct {
		way wire.Direction
		at  int
	}
	seen := make(map[place]bool)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	work := make(chan *cut)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, r := range rigs {
		wg.Go(func() {
			for k := range work {
				f, failure := e.until(ctx, r, k)
				mu.Lock()
				switch p := (place{k.way, k.at}); {
				case k.done && k.at > 0 && !seen[p]:
					seen[p] = true
					n.cut++
					fallthrough
				case k.done:
					n.cuts++
				case f == nil && failure == nil && k.counts[k.way] < k.at:
					n.short++
				}
				if found == nil {
					found = f
				}
				if err == nil && found == nil && ctx.Err() == nil { // later ones come of the end of the others
					err = failure
				}
				if found != nil || err != nil {
					stop()
				}
				mu.Unlock()
			}
		})
	}
	for _, k := range list {
		if ctx.Err() != nil {
			break
		}
		work <- k
	}
	close(work)
	wg.Wait()
	return n, found, err
}

// TestCatches cuts the connections of stores with a defect. Each must be caught.
func TestCatches(t *testing.T) {
	for _, c := range []struct {
		subject subject
		kind    serverload.Kind
		defect  serverload.Defect
		mode    mode
		way     wire.Direction
		want    serverload.Verdict
		why     string
	}{
		{subjects[0], serverload.Try, serverload.Mistold, closed, wire.ToClient, serverload.Minted, "the server has committed"},
		{subjects[0], serverload.All, serverload.Mistold, reset, wire.ToClient, serverload.Minted, "the server has committed"},
		{subjects[0], serverload.Update, serverload.Mistold, half, wire.ToClient, serverload.Minted, "the server has committed"},
		{subjects[1], serverload.Charge, serverload.Mistold, closed, wire.ToClient, serverload.Minted, "the server has committed"},
		{subjects[0], serverload.Fillup, serverload.Resent, closed, wire.ToClient, serverload.Twice, "the fill was applied, and is sent again"},
		{subjects[0], serverload.All, serverload.Resent, partition, wire.ToClient, serverload.Twice, "the fill was applied, and is sent again"},
		{subjects[0], serverload.Try, serverload.Early, closed, wire.ToServer, serverload.Lost, "the server never saw the fill"},
		{subjects[2], serverload.Try, serverload.Mistold, closed, wire.ToClient, serverload.Minted, "the server has applied it"},
		{subjects[2], serverload.All, serverload.Mistold, half, wire.ToClient, serverload.Minted, "the server has applied it"},
		{subjects[2], serverload.Fillup, serverload.Resent, reset, wire.ToClient, serverload.Twice, "the fill was applied, and is sent again"},
		{subjects[2], serverload.Try, serverload.Early, closed, wire.ToServer, serverload.Lost, "the server never saw the fill"},
	} {
		t.Run(fmt.Sprintf("%s, %s, %s", c.subject.name, c.kind, c.defect), func(t *testing.T) {
			r := c.subject.open(t, c.subject.settings[0].value, c.defect)
			e := c.subject.step(c.kind, 0)
			const seed = attack.Seed(1)
			random := seed.Rand()
			end := 30
			if c.way == wire.ToClient {
				lengths, err := e.measure(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				end = lengths[c.way]
			}
			for n := 1; n <= 30; n++ {
				f, err := e.run(t.Context(), r, &cut{mode: c.mode, way: c.way, at: end - 1 - random.IntN(30)})
				if err != nil {
					t.Fatal(err)
				}
				if f != nil {
					t.Logf("caught after %d cuts: %v", n, f)
					if f.Verdict != c.want {
						t.Errorf("found %s, want %s", f.Verdict, c.want)
					}
					return
				}
			}
			t.Errorf("not caught: %s", c.why)
		})
	}
}
