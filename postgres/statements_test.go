package postgres

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgname"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/store"
)

func defaultNames(t *testing.T) pgname.Names {
	t.Helper()
	names, err := pgname.New("", "")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestFragmentsAgreeWithStore compares the fragments on a server with package store, bit for
// bit, over random buckets.
func TestFragmentsAgreeWithStore(t *testing.T) {
	t.Parallel()
	const n = 50_000
	random := rand.New(rand.NewPCG(1, 2))
	records := make([]store.Record, n)
	levels, rates, written := make([]float64, n), make([]float64, n), make([]float64, n)
	clocks, times := make([]time.Time, n), make([]time.Time, n)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	for i := range records {
		r := &records[i]
		r.Level = math.Ldexp(random.Float64(), random.IntN(54))
		r.Time = noon + random.Int64N(1<<50)
		if random.IntN(10) == 0 {
			r.Level = 0
		}
		elapsed := random.Int64N(1 << random.IntN(50))
		switch random.IntN(8) {
		case 0:
			elapsed = 0
		case 1:
			elapsed = -elapsed // a clock that went back
		}
		// Most rates drain the level in about the time that passes, so that the last bits
		// matter.
		rates[i] = r.Level / (float64(elapsed) / 1e6) * 2 * random.Float64()
		if !(rates[i] >= 1e-12 && rates[i] <= 1<<53) || random.IntN(4) == 0 {
			rates[i] = math.Ldexp(random.Float64(), random.IntN(90)-39)
		}
		r.Limit = store.Limit{Capacity: 1, LeakRate: rates[i]}
		if written[i] = rates[i]; random.IntN(4) == 0 { // another rate than the one that is written now
			r.LeakRate *= 2
			written[i] = r.LeakRate
		}
		levels[i], times[i], clocks[i] = r.Level, time.UnixMicro(r.Time), time.UnixMicro(r.Time+elapsed)
	}
	sql := defaultNames(t).Statement("test", `
		SELECT {{leaked(t, t.clock)}}, {{time_to_store(t, t.rate, t.clock, {{leaked(t, t.clock)}})}},
		       {{fits(t, t.clock, 1::float8, t.level)}}
		FROM unnest($1::float8[], $2::timestamptz[], $3::float8[], $4::timestamptz[], $5::float8[])
		     WITH ORDINALITY AS u (level, atime, leak_rate, clock, rate, i)
		     CROSS JOIN LATERAL (SELECT u.level, u.atime, 2::float8 AS held, u.leak_rate, u.rate, u.clock) AS t
		ORDER BY i`, fragments())
	rows, err := pgtest.Pool(t).Query(t.Context(), sql, levels, times, written, clocks, rates)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	var left float64
	var at time.Time
	var fits bool
	_, err = pgx.ForEachRow(rows, []any{&left, &at, &fits}, func() error {
		r, clock := records[i], clocks[i].UnixMicro()
		want := r.LevelAt(clock)
		if math.Float64bits(left) != math.Float64bits(want) {
			t.Errorf("%v of %+v are left at rate %v after %d µs; package store says %v", left, r, rates[i], clock-r.Time, want)
		}
		if want := want+2+1 <= r.Level; fits != want {
			t.Errorf("%+v at rate %v after %d µs: fits is %v; package store says %v", r, rates[i], clock-r.Time, fits, want)
		}
		filled := r
		op := store.Op{Bucket: store.Limit{Capacity: 1 << 60, LeakRate: rates[i]}.For("k"), Amount: 1, Mode: store.Always}
		if _, _, err := filled.Fill(&op, clock, math.MaxInt64); err != nil {
			return err
		}
		if at.UnixMicro() != filled.Time {
			t.Errorf("%+v at rate %v after %d µs is stored with the time %d; package store says %d", r, rates[i], clock-r.Time, at.UnixMicro(), filled.Time)
		}
		i++
		if t.Failed() {
			return fmt.Errorf("case %d", i)
		}
		return nil
	})
	if err != nil || i != n {
		t.Errorf("%d of %d rows, %v", i, n, err)
	}
}

// TestIntactAgreesWithStore compares the fragment on a server with Record.Validate, over the bounds
// of all columns.
func TestIntactAgreesWithStore(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	units := []float64{-inf, -1, -5e-324, 0, 5e-324, 1, 0x1p106, math.Nextafter(0x1p106, inf), 1e300, inf, math.NaN()}
	capacities := []float64{-inf, -1, 0, 1, 1 << 53, math.Nextafter(1<<53, inf), inf, math.NaN()}
	rates := []float64{-inf, -1, 0, math.Nextafter(1e-12, 0), 1e-12, 1, 1 << 53, math.Nextafter(1<<53, inf), inf, math.NaN()}
	first, last := time.Time{}.UnixMicro(), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()-1
	times := []int64{first - 1, first, -1, 0, 1, store.MaxTime, store.MaxTime + 1, last, last + 1}
	var records []store.Record
	for _, level := range units {
		for _, held := range units {
			for _, capacity := range capacities {
				for _, rate := range rates {
					limit := store.Limit{Capacity: capacity, LeakRate: rate}
					records = append(records, store.Record{Level: level, Held: held, Time: 1, Limit: limit})
				}
			}
		}
	}
	for _, at := range times {
		for _, until := range times {
			records = append(records, store.Record{Time: at, BlockedUntil: until, Limit: store.Limit{Capacity: 1}})
		}
	}
	keys := make([]string, len(records))
	for i := range keys {
		keys[i] = fmt.Sprintf("%06d", i)
	}
	sql := defaultNames(t).Statement("test", "SELECT {{intact(t)}} FROM {{rows(t)}} ORDER BY t.key", fragments())
	rows, err := pgtest.Pool(t).Query(t.Context(), sql, arguments(keys, records)...)
	if err != nil {
		t.Fatal(err)
	}
	i, sound := 0, 0
	var intact bool
	_, err = pgx.ForEachRow(rows, []any{&intact}, func() error {
		if want := records[i].Validate(); intact != (want == nil) {
			t.Errorf("%+v is intact on the server: %t; package store says %v", records[i], intact, want)
		}
		if i++; intact {
			sound++
		}
		return nil
	})
	if err != nil || i != len(records) || sound == 0 {
		t.Errorf("%d of %d rows, %d of them intact, %v", i, len(records), sound, err)
	}
}
