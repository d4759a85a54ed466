package simulate_test

import (
	"bufio"
	"compress/gzip"
	"io"
	"math"
	"math/big"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brimgo/brim/cmd/brim/internal/simulate"
	"github.com/brimgo/brim/cmd/brim/internal/trace"
	"github.com/brimgo/brim/memory"
	"github.com/brimgo/brim/store"
)

const nasa = "../../testdata/nasa-1995-08-01.log.gz"

// exact is a bucket in rational arithmetic. It follows the definition, and shares no code with
// brim. Its level is a numerator. All numbers of a replay share the denominator, which is faster
// than a big.Rat for each number.
type exact struct {
	level *big.Int
	at    int64
}

// model counts the requests that buckets with this limit accept and refuse, and the accepted
// units. Its numbers are text, so that
// 0.1 is exactly a tenth.
func model(t *testing.T, r *trace.Reader, capacity, leakRate, cost string) (accepted, refused int64, units float64) {
	t.Helper()
	rat := func(s string) *big.Rat {
		v, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("%q is not a rational number", s)
		}
		return v
	}
	c, perSecond, each := rat(capacity), rat(leakRate), rat(cost)
	perMicro := new(big.Rat).Quo(perSecond, big.NewRat(1e6, 1))
	denominator := new(big.Int).Mul(c.Denom(), perMicro.Denom())
	denominator.Mul(denominator, each.Denom())
	over := func(v *big.Rat) *big.Int {
		return new(big.Int).Quo(new(big.Int).Mul(v.Num(), denominator), v.Denom())
	}
	rim, leak, total := over(c), over(perMicro), new(big.Int)
	buckets := map[string]*exact{}
	for {
		req, err := r.Next()
		if err == io.EOF {
			units, _ = new(big.Rat).SetFrac(total, denominator).Float64()
			return accepted, refused, units
		}
		if err != nil {
			t.Fatal(err)
		}
		b := buckets[req.Key]
		if b == nil {
			b = &exact{level: new(big.Int), at: req.Time}
			buckets[req.Key] = b
		}
		if req.Time > b.at {
			leaked := new(big.Int).Mul(leak, big.NewInt(req.Time-b.at))
			if b.level.Sub(b.level, leaked).Sign() < 0 {
				b.level.SetInt64(0)
			}
			b.at = req.Time
		}
		n := over(each)
		if cost == "0" { // the costs of the lines, which are whole numbers
			n = new(big.Int).Mul(big.NewInt(int64(req.Cost)), denominator)
		}
		after := new(big.Int).Add(b.level, n)
		if n.Sign() == 0 || after.Cmp(rim) <= 0 {
			b.level = after
			total.Add(total, n)
			accepted++
		} else {
			refused++
		}
	}
}

func open(t *testing.T, o trace.Options) *trace.Reader {
	t.Helper()
	f, err := os.Open(nasa)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return reader(t, f, o)
}

// morning returns the first 10,000 lines of the day; 3,000 with -short.
var morning = sync.OnceValues(func() (string, error) {
	f, err := os.Open(nasa)
	if err != nil {
		return "", err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	n := 10_000
	if testing.Short() {
		n = 3_000
	}
	lines := bufio.NewScanner(z)
	for range n {
		if !lines.Scan() {
			return "", lines.Err()
		}
		text.WriteString(lines.Text() + "\n")
	}
	return text.String(), nil
})

func reader(t *testing.T, in io.Reader, o trace.Options) *trace.Reader {
	t.Helper()
	r, err := trace.NewReader(in, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// inStore returns options for a run into a new store.
func inStore(t testing.TB, limit store.Limit) simulate.Options {
	t.Helper()
	clock := new(simulate.Clock)
	s := memory.New(&memory.Options{Clock: clock.Now, MaxSkew: simulate.MaxSkew})
	t.Cleanup(func() { s.Close() })
	return simulate.Options{
		Limits: []simulate.Limit{{Limit: limit}},
		Store:  &simulate.Store{Store: s, Clock: clock, Prefix: "replay/"}, Top: 10,
	}
}

// everywhere returns options for a run into a new store and for one without a store.
func everywhere(t testing.TB, limit store.Limit) map[string]simulate.Options {
	t.Helper()
	alone := simulate.Options{Limits: []simulate.Limit{{Limit: limit}}, Top: 10}
	return map[string]simulate.Options{"in a store": inStore(t, limit), "without a store": alone}
}

func TestReplayAgreesWithRationalArithmetic(t *testing.T) {
	for _, tc := range []struct {
		why            string
		options        trace.Options
		capacity, rate string
		limit          store.Limit
		over           time.Duration
	}{
		{"the limit of the documentation, whose rate no double represents", trace.Options{}, "5", "1/10", store.Limit{Capacity: 5, LeakRate: 0.1}, 0},
		{"a rate that a double holds exactly", trace.Options{}, "8", "1/4", store.Limit{Capacity: 8, LeakRate: 0.25}, 0},
		{"every second request of a burst is refused", trace.Options{}, "1", "1/2", store.Limit{Capacity: 1, LeakRate: 0.5}, 0},
		{"nothing leaks", trace.Options{}, "20", "0", store.Limit{Capacity: 20}, 0},
		{"thirds from --over, for which doubles decide differently", trace.Options{}, "5", "1/3", store.Over(5, 15*time.Second), 15 * time.Second},
		{"a fifth, which no double represents", trace.Options{}, "5", "1/5", store.Limit{Capacity: 5, LeakRate: 0.2}, 0},
		{"a twentieth and a third of a day", trace.Options{}, "10", "1/2880", store.Over(10, 8*time.Hour), 8 * time.Hour},
		{"a capacity and a cost that no double represents", trace.Options{Cost: trace.Cost{Units: 0.7}}, "4.9", "0.3", store.Limit{Capacity: 4.9, LeakRate: 0.3}, 0},
		{"bytes, some of them above the capacity", trace.Options{Cost: trace.Cost{Bytes: true}}, "100000", "512", store.Limit{Capacity: 100000, LeakRate: 512}, 0},
		{"a key of many lines", trace.Options{Key: "status"}, "50", "1/8", store.Limit{Capacity: 50, LeakRate: 0.125}, 0},
		{"a cost that is not a whole number", trace.Options{Key: "path", Cost: trace.Cost{Units: 1.5}}, "9", "3/64", store.Limit{Capacity: 9, LeakRate: 3.0 / 64}, 0},
	} {
		t.Run(tc.capacity+" "+strings.ReplaceAll(tc.rate, "/", "over"), func(t *testing.T) {
			t.Parallel()
			text, err := morning()
			if err != nil {
				t.Fatal(err)
			}
			cost := strconv.FormatFloat(tc.options.Cost.Units, 'g', -1, 64)
			accepted, refused, units := model(t, reader(t, strings.NewReader(text), tc.options), tc.capacity,
				tc.rate, cost)
			for where, o := range everywhere(t, tc.limit) {
				o.Limits[0].Over, o.Cost = tc.over, tc.options.Cost.Units
				rep, err := simulate.Run(t.Context(), reader(t, strings.NewReader(text), tc.options), o)
				if err != nil {
					t.Fatal(err)
				}
				got := rep.Outcomes[0]
				if got.Accepted != accepted || got.Refused != refused {
					t.Errorf("%s, %s: accepted %d, refused %d; want %d and %d", where, tc.why, got.Accepted,
						got.Refused, accepted, refused)
				}
				if math.Abs(got.UnitsAccepted-units) > 1e-9*units {
					t.Errorf("%s, %s: %v units accepted; want %v", where, tc.why, got.UnitsAccepted, units)
				}
			}
			if refused == 0 {
				t.Errorf("%s: the model refuses nothing, so it tests nothing", tc.why)
			}
		})
	}
}
