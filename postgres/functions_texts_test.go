package postgres_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/seed"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// periodsOf are texts of quotas with every kind of start.
func periodsOf(zone string) (texts []string) {
	for _, unit := range []string{"hour", "day", "week", "week,sunday", "month", "month,15", "month,29", "month,30", "month,31", "year"} {
		texts = append(texts, "1/"+unit+"@"+zone)
		for _, clock := range []string{"00:30", "02:30", "23:59"} {
			if unit != "hour" {
				texts = append(texts, "1/"+unit+","+clock+"@"+zone)
			}
		}
	}
	return texts
}

// TestFunctionPeriods compares the periods of quotas with those of Go, in zones with every kind of
// change of clocks: around the changes, and at the beginnings and ends.
func TestFunctionPeriods(t *testing.T) {
	schema, pool := migrated(t), pgtest.Pool(t)
	years := seed.Attempts(3, 65) // some of them by day
	for i, name := range []string{
		"Europe/Berlin", "America/Sao_Paulo", "America/St_Johns", "Pacific/Apia", "Pacific/Kwajalein", "Asia/Manila", "Africa/Cairo",
		"Asia/Gaza", "America/Havana", "Antarctica/Troll", "Asia/Kathmandu", "UTC", "America/New_York", "Australia/Lord_Howe",
		"Africa/Casablanca", "Europe/London", "America/Nuuk", "Asia/Tehran", "Pacific/Chatham", "Africa/Monrovia",
	} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		from := time.Date(1971+i*7%(66-years), 1, 1, 0, 0, 0, 0, time.UTC)
		until := from.AddDate(years, 0, 0)
		instants := []time.Time{from, until}
		for at := from; at.Before(until); {
			_, change := at.In(zone).ZoneBounds()
			if change.IsZero() || !change.After(at) {
				break
			}
			for _, d := range []time.Duration{-24 * time.Hour, -time.Hour, -30 * time.Minute, -time.Microsecond, 0, time.Minute, 30 * time.Minute, time.Hour, 24 * time.Hour} {
				instants = append(instants, change.Add(d))
			}
			at = change
		}
		for _, text := range periodsOf(name) {
			limit, err := store.ParseLimit(text)
			if err != nil {
				t.Fatal(err)
			}
			times := slices.Clone(instants)
			for _, at := range instants {
				begins, ends := limit.PeriodAt(at)
				times = append(times, begins, ends.Add(-time.Microsecond))
			}
			rows, _ := pool.Query(t.Context(), "SELECT p.begins::int8, p.ends::int8 FROM "+schema+".parse_limit($1) AS l, unnest($2::timestamptz[]) WITH ORDINALITY AS u (at, i), "+
				schema+".period_at(l.anchor, l.width, l.zone, u.at) AS p ORDER BY u.i", text, times)
			got, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (span [2]int64, err error) { return span, row.Scan(&span[0], &span[1]) })
			if err != nil || len(got) != len(times) {
				t.Fatalf("%s: %d of %d periods, %v", text, len(got), len(times), err)
			}
			for i, at := range times {
				begins, ends := limit.PeriodAt(at)
				if got[i] != [2]int64{begins.UnixMicro(), ends.UnixMicro()} {
					t.Errorf("%s at %v is %v to %v; in Go %v to %v", text, at.UTC(), time.UnixMicro(got[i][0]).UTC(), time.UnixMicro(got[i][1]).UTC(), begins, ends)
				}
			}
		}
		if t.Failed() {
			return
		}
	}
}

// TestFunctionTexts compares the limits of texts with those of Go. refused marks texts that Go
// reads.
func TestFunctionTexts(t *testing.T) {
	schema, pool := migrated(t), pgtest.Pool(t)
	for text, refused := range map[string]bool{
		"100/1h": false, "100/h": false, "1/3s": false, "7.5/1d12h": false, "100/2w": false, "5./.5h": false, "1e3/1ms": false, "0.1/90s": false,
		"100@0.5": false, "100@0": false, "1e15@1e-12": false, "+5@1": false, "3/h30m": false, "9/1.000000001s": false, "9/1us": false, "9/1µs": false,
		"1/0.333333333333s": false, "10/100000h": false,
		"": false, "100": false, "100/": false, "100/1": false, "-1/h": false, "1/-1h": false, "1/0s": false, "NaN@1": false, "inf/h": false, "0x1p4/h": false,
		"1e400/h": false, "1/1h@": false, "1/day": false, "1/day@": false, "1/day@Local": false, "1/day@Mars/Base": false, "1/fortnight@UTC": false,
		"1/hour,06:00@UTC": false, "1/week,funday@UTC": false, "1/month,32@UTC": false, "1/day,24:00@UTC": false, "1/1.5.2h": false, "1/1hm": false,
		"0@0": false, "9007199254740993e3@1": false, "1@1e-13": false, "1/300y": false, "1/400000w": false,
		"1/day@EST": true, "1/day@EST5EDT": true, "1.00000000000000000000000000000000000000001/h": true,
	} {
		limit, invalid := store.ParseLimit(text)
		var capacity, rate float64
		err := pool.QueryRow(t.Context(), "SELECT capacity, leak_rate FROM "+schema+".try_fillup('k', 0, $1) AS f, "+schema+".parse_limit($1)", text).Scan(&capacity, &rate)
		var pg *pgconn.PgError
		switch {
		case invalid != nil || refused:
			if !errors.As(err, &pg) || pg.Code != "22023" {
				t.Errorf("%q is read as %v, %v, %v; in Go as %v, %v", text, capacity, rate, err, limit, invalid)
			}
		case err != nil || capacity != limit.Capacity || rate != limit.LeakRate:
			t.Errorf("%q is read as %v, %v, %v; in Go as %v, %v", text, capacity, rate, err, limit.Capacity, limit.LeakRate)
		}
	}
	// The special limits count nothing, but drain and read.
	b := store.Limit{Capacity: 10}.For("k")
	s := over(t, pool, postgres.Options{Schema: schema})
	fill(t, s, op(b, 4, store.IfFits))
	for call, want := range map[string]string{
		"try_fillup('k', 1, 'nobody')": "(f,0,0,,)", "try_fillup('k', 0, '0')": "(t,0,0,00:00:00,)", "fillup('k', 1, '0/1h')": "(f,0,0,,)",
		"able_to_accept('k', 1, '0/day@UTC')": "(f,0,0,,)", "try_fillup('k', 1e9, 'unlimited')": "(t,0,9.007199254740992e+15,00:00:00,)",
		"state('k', 'nobody')": "(4,0,)", "state('k', 'unlimited')": "(4,9.007199254740988e+15,)", "state('k')": "(4,6,)", "state('k', 5, 0)": "(4,1,)",
		"state('k', '5/day@UTC')": "(4,1,)", "drain('k', 0, 'nobody')": "(t,4,0,00:00:00,)",
	} {
		if got := scalar[string](t, pool, "SELECT "+schema+"."+call+"::text"); got != want {
			t.Errorf("%s is %s; want %s", call, got, want)
		}
	}
}

// TestFunctionErrors gives the functions bad input, which they refuse in Go's words.
func TestFunctionErrors(t *testing.T) {
	schema, pool := migrated(t), pgtest.Pool(t)
	limit := store.Limit{Capacity: 10, LeakRate: 1}
	for _, c := range []struct {
		why string
		op  store.Op
	}{
		{"an empty key", op(limit.For(""), 1, store.IfFits)},
		{"a long key", op(limit.For(strings.Repeat("é", 257)), 1, store.IfFits)},
		{"no limit", op(store.Bucket{Key: "k"}, 1, store.IfFits)},
		{"a negative capacity", op(store.Limit{Capacity: -1, LeakRate: 1}.For("k"), 1, store.IfFits)},
		{"a capacity that is no number", op(store.Limit{Capacity: math.NaN(), LeakRate: 1}.For("k"), 1, store.Clamp)},
		{"a large capacity", op(store.Limit{Capacity: 1 << 54}.For("k"), 1, store.Clamp)},
		{"a negative leak rate", op(store.Limit{Capacity: 1, LeakRate: -1}.For("k"), 1, store.Ask)},
		{"a small leak rate", op(store.Limit{Capacity: 1, LeakRate: 1e-13}.For("k"), 1, store.Ask)},
		{"an amount that is no number", op(limit.For("k"), math.NaN(), store.IfFits)},
		{"a large amount", op(limit.For("k"), 1<<54, store.IfFits)},
		{"an infinite amount", op(limit.For("k"), math.Inf(1), store.Clamp)},
		{"an amount that is lost", op(store.Limit{Capacity: 1 << 53}.For("k"), 1, store.IfFits)},
	} {
		want := c.op.Validate()
		name := map[store.Mode]string{store.IfFits: "try_fillup", store.Clamp: "fillup", store.Ask: "able_to_accept"}[c.op.Mode]
		_, err := pool.Exec(t.Context(), "SELECT "+schema+"."+name+"($1, $2, $3, $4)", c.op.Key, c.op.Amount, c.op.Capacity, c.op.LeakRate)
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != "22023" || strings.ReplaceAll(pg.Message, "Infinity", "+Inf") != want.Error() {
			t.Errorf("%s: %v; want 22023 and %q", c.why, err, want)
		}
	}
	for _, call := range []string{
		"try_fillup('k', -1, 10, 1)", "drain('k', -1, 10, 1)", "drain('k', 'NaN', 10, 1)", "block('k', '0')", "block('k', '-1 s')", "block('k', null)",
		"try_fillup(null, 1, 10, 1)", "try_fillup('k', null, 10, 1)", "try_fillup('k', 1, null, 1)", "try_fillup('k', 1, 10, null)",
		"try_fillup('k', 1, null::text)", "state('')", "unblock('')", "state('k', 'x')", "try_fillup('', 1, 'nobody')", "try_fillup('k', -1, 'unlimited')",
	} {
		var pg *pgconn.PgError
		if _, err := pool.Exec(t.Context(), "SELECT "+schema+"."+call); !errors.As(err, &pg) || pg.Code != "22023" {
			t.Errorf("%s: %v; want 22023", call, err)
		}
	}
	if n := scalar[int](t, pool, "SELECT count(*) FROM "+table(t, schema)); n != 0 {
		t.Errorf("invalid calls have made %d buckets", n)
	}
	execute(t, pool, "INSERT INTO "+table(t, schema)+" (key, level, atime, capacity, leak_rate) VALUES ('k', 'NaN', now(), 1, 1)")
	var pg *pgconn.PgError
	if _, err := pool.Exec(t.Context(), "SELECT "+schema+".try_fillup('k', 1, 1, 1)"); !errors.As(err, &pg) || pg.Code != "XX001" {
		t.Errorf("a damaged row: %v; want XX001", err)
	}
}
