package redisstore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/store"
)

// whole are texts of buckets.
var whole = []string{
	"3.8333333333333335 1795603652.855853 100 1.6666666666666667",
	"0 1795603652.000000 9007199254740992 0.000001",
	"1.0000000000000001e-05 -0.000001 1e+15 0 2.5",
	"10 -9007199254.740992 0 1 0 9007199254.740992",
	"7 0.000000 5 0 7 1795603653.000001",
	"8.1129638414606682e+31 0.000000 9007199254740992 9007199254740992 8.1129638414606682e+31",
	"0 1795603652.000000 0 0 0 1795603653.000001",
}

// broken are texts that are no buckets.
var broken = []string{
	"", " ", "a string of an application", "1 2 3", "1 2 3 4", "1 1795603652.855853 100", "1 1795603652.855853 100 2 ",
	".5 1795603652.855853 100 2", "-1 1795603652.855853 100 2", "+1 1795603652.855853 100 2", "1 1795603652.85585 100 2",
	"1 1795603652.8558530 100 2", "1 1795603652 100 2", "1 .855853 100 2", "1 -.855853 100 2", "1 --1.855853 100 2",
	"1 9007199254.740994 100 2", "1 1795603652.855853 0 0", "0 1795603652.855853 0 0", "0 1795603652.855853 0 0 0", "0 1795603652.855853 0 0 1 1795603653.000001",
	"1 1795603652.855853 0 0 0 1795603653.000001", "1 1795603652.855853 100 2 3 0.000000", "nan 1795603652.855853 100 2",
	"1 1795603652.855853 inf 2", "1 1795603652.855853 0x10 2", "1e400 1795603652.855853 100 2", "1 1795603652.855853 1_0 2",
	"1  1795603652.855853 100 2", "1 1795603652.855853 100 2\n", "1\t1795603652.855853 100 2", "1 1795603652.855853 100 2\x00",
	"8.2e+31 1795603652.855853 100 2", "1 1795603652.855853 100 2 8.2e+31", "1 1795603652.855853 9007199254740994 2",
	"1 1795603652.855853 100 9007199254740994", "1 1795603652.855853 100 1e-13", "1 1795603652.855853 100 2 1e400",
	"1 1795603652.855853 100 2." + strings.Repeat("0", longest), "1." + strings.Repeat("0", longest) + " 1795603652.855853 100 2",
	"1 1795603652.855853 100 1e", "1 1795603652.855853 100 2 3 4", "1 1795603652.855853 100 2 3 4.000000 5",
}

// agree has the script and Go read a text, and reports whether it is a bucket to both.
func agree(t *testing.T, s *Store, raw string) bool {
	t.Helper()
	must(t, s.single.client.Set(t.Context(), s.name("k"), raw, 0).Err())
	op := store.Op{Bucket: store.Bucket{Key: "k"}, Amount: -1, Mode: store.Always}
	want, isBucket := parse(raw)
	_, err := s.Fill(t.Context(), op)
	if err != nil && !errors.Is(err, store.ErrCorrupt) || (err == nil) != isBucket {
		t.Fatalf("%q: the script says %v, and Go %v", raw, err, isBucket)
	}
	left, err := s.single.client.Get(t.Context(), s.name("k")).Result()
	must(t, err)
	if !isBucket {
		if left != raw {
			t.Fatalf("%q is no bucket, and was changed to %q", raw, left)
		}
		return false
	}
	if _, _, err := want.Fill(&op, s.o.Clock().UnixMicro(), s.o.MaxSkew); err != nil {
		t.Fatal(err)
	}
	got, ok := parse(left)
	if d := differ.Fields(got, want); !ok || d != "" {
		t.Fatalf("%q became %q, a bucket %v:\n%s", raw, left, ok, d)
	}
	return true
}

// damaged opens a store with a clock that is beside the times of the texts.
func damaged(t *testing.T) *Store {
	client := redistest.Client(t)
	return open(t, client, &Options{Prefix: redistest.Prefix(t, client), Clock: toClock(1795603652_900000)})
}

// TestParsersAgree has the script and Go agree on texts that are nearly buckets.
func TestParsersAgree(t *testing.T) {
	t.Parallel()
	s := damaged(t)
	for _, raw := range whole {
		if !agree(t, s, raw) {
			t.Errorf("%q is no bucket", raw)
		}
	}
	for _, raw := range broken {
		if agree(t, s, raw) {
			t.Errorf("%q is a bucket", raw)
		}
	}
	from, err := seed.New()
	must(t, err)
	t.Logf("BRIM_SEED=%d repeats this run", from)
	rng := rand.New(rand.NewPCG(from, 1))
	const alphabet = "0123456789.e+- xXnaifpP_\n\x00"
	tries, taken := seed.Attempts(4_000, 1_000_000), 0
	for range tries {
		raw := []byte(whole[rng.IntN(len(whole))])
		for range 1 + rng.IntN(3) {
			i, c := rng.IntN(len(raw)), alphabet[rng.IntN(len(alphabet))]
			switch rng.IntN(3) {
			case 0:
				raw[i] = c
			case 1:
				raw = append(raw[:i], raw[i+1:]...)
			case 2:
				raw = append(raw[:i], append([]byte{c}, raw[i:]...)...)
			}
		}
		if agree(t, s, string(raw)) {
			taken++
		}
	}
	if taken < tries/20 || taken > tries*19/20 {
		t.Errorf("%d of %d texts were buckets: the test misses one kind", taken, tries)
	}
}

// TestDamaged has every call report a damaged bucket, none change it or a neighbour, and Delete
// remove it.
func TestDamaged(t *testing.T) {
	s := damaged(t)
	op := store.Op{Bucket: tenUnits.For("k"), Amount: 3}
	for _, raw := range broken {
		must(t, s.single.client.Set(t.Context(), s.name("k"), raw, 0).Err())
		for name, call := range map[string]func() error{
			"fill":  func() error { _, err := s.Fill(t.Context(), op); return err },
			"read":  func() error { _, err := s.Read(t.Context(), store.Bucket{Key: "k"}); return err },
			"visit": func() error { _, err := list(t.Context(), s, ""); return err },
			"apply": func() error {
				res, err := s.Apply(t.Context(), store.Txn{{Bucket: tenUnits.For("other"), Amount: 1}, op})
				return errors.Join(err, res[0].Err)
			},
		} {
			if err := call(); !errors.Is(err, store.ErrCorrupt) {
				t.Errorf("%s of %q: %v, want ErrCorrupt", name, raw, err)
			}
		}
		near := func(key string) store.Txn { return store.Txn{{Bucket: tenUnits.For(key), Amount: 1}} }
		res, err := s.Apply(t.Context(), near("a"), store.Txn{op}, near("b"))
		must(t, err)
		if res[0].Err != nil || !errors.Is(res[1].Err, store.ErrCorrupt) || res[2].Err != nil {
			t.Errorf("beside %q: %v, %v, %v; want ErrCorrupt of the second alone", raw, res[0].Err, res[1].Err, res[2].Err)
		}
		must(t, s.Delete(t.Context(), "a", "b"))
		if n, err := s.single.client.Exists(t.Context(), s.name("other")).Result(); err != nil || n != 0 {
			t.Errorf("a transaction over a damaged bucket filled another: %v", err)
		}
		must(t, s.Delete(t.Context(), "k", "nobody"))
		if got, err := s.Fill(t.Context(), op); err != nil || got.Level != 3 {
			t.Errorf("after Delete %+v, %v; want an empty bucket filled", got, err)
		}
	}
}

// TestHugeText has every call refuse a text of megabytes without reading it.
func TestHugeText(t *testing.T) {
	server := redistest.NewServer(t)
	client := server.Client(t)
	s := open(t, client, nil)
	must(t, client.Set(t.Context(), s.name("k"), whole[0]+strings.Repeat("0", 2<<20), 0).Err())
	must(t, client.ConfigResetStat(t.Context()).Err())
	const calls = 50
	for range calls {
		_, err := s.Fill(t.Context(), store.Op{Bucket: tenUnits.For("k"), Amount: 3})
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("fill: %v, want ErrCorrupt", err)
		}
		if _, err = s.Read(t.Context(), store.Bucket{Key: "k"}); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("read: %v, want ErrCorrupt", err)
		}
	}
	text, err := client.Info(t.Context(), "everything").Result()
	must(t, err)
	info := fields(text)
	if got := info["cmdstat_get"]; got != "" {
		t.Errorf("the scripts have read all of the text: %s", got)
	}
	if got := info["cmdstat_getrange"]; !strings.HasPrefix(got, fmt.Sprintf("calls=%d,", 2*calls)) {
		t.Errorf("the scripts read %q; want %d calls", got, 2*calls)
	}
	if n, err := strconv.Atoi(info["total_net_output_bytes"]); err != nil || n > 1000*calls {
		t.Errorf("the server has sent %d bytes, %v", n, err)
	}
	if _, got := check(t, client, nil); !strings.Contains(got, "broken buckets") {
		t.Errorf("the check finds %q", got)
	}
}
