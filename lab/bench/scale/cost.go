package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/load"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/internal/table"
	"github.com/brimgo/brim/lab/bench/internal/redises"
	"github.com/brimgo/brim/redisstore"
)

// spread is a subject: buckets on some primaries, and callers.
type spread struct {
	primaries int // 0 for a server without a cluster
	callers   int

	used   *redises.Servers // those that have the buckets
	decide decideFunc

	rate, server, client, batch, p99 []float64 // by turn
}

// cost measures a decision on one, two and three primaries, with as many callers for each primary,
// and with as many in all.
func cost(ctx context.Context, length time.Duration, rounds, batch int) (_ *table.Table, err error) {
	single, err := redises.Start(ctx, false, connections, "appendonly no")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, single.Close()) }()
	cluster, err := redises.Start(ctx, true, connections, "appendonly no")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	var subjects []*spread
	for primaries := range redistest.Primaries + 1 {
		r := single
		keys := names(keyCount)
		used := single
		if primaries > 0 {
			r, used = cluster, &redises.Servers{Each: cluster.Each[:primaries]}
			if keys, err = keysOn(ctx, cluster, primaries); err != nil {
				return nil, err
			}
		}
		decide, closeStore, err := decider(r.Client, batch, keys)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, closeStore()) }()
		if err := decide.warm(ctx); err != nil {
			return nil, err
		}
		const each = 64
		few, many := each*max(1, primaries), each*redistest.Primaries
		subjects = append(subjects, &spread{primaries: primaries, callers: few, used: used, decide: decide})
		if few < many {
			subjects = append(subjects, &spread{primaries: primaries, callers: many, used: used, decide: decide})
		}
	}
	order, err := load.Draw("uniform", keyCount, 1, 0, 1)
	if err != nil {
		return nil, err
	}
	if err := load.Interleave(rounds, len(subjects), func(_, i int) error {
		return subjects[i].turn(ctx, order, length)
	}); err != nil {
		return nil, err
	}
	t := table.Numeric("buckets on", "callers", "decisions/s", "decisions in a script", "servers' CPU, µs", "client's CPU, µs",
		"servers' limit, decisions/s", "p99, ms")
	for _, s := range subjects {
		name := fmt.Sprintf("%d of a cluster's primaries", s.primaries)
		if s.primaries == 0 {
			name = "one server, no cluster"
		}
		server := load.Median(s.server)
		t.Add(name, strconv.Itoa(s.callers), number(load.Median(s.rate)), number(load.Median(s.batch)), number(server),
			number(load.Median(s.client)), number(float64(max(1, s.primaries))*1e6/server), number(load.Median(s.p99)))
	}
	return t, nil
}

// keysOn returns keys whose buckets are on the first primaries.
func keysOn(ctx context.Context, r *redises.Servers, primaries int) (keys []string, err error) {
	client, ok := r.Client.(*redis.ClusterClient)
	if !ok {
		return nil, fmt.Errorf("a %T is no client of a cluster", r.Client)
	}
	wanted := make(map[string]bool)
	for _, c := range r.Each[:primaries] {
		wanted[c.Options().Addr] = true
	}
	for i := 0; len(keys) < keyCount; i++ {
		key := "key" + strconv.Itoa(i)
		primary, err := client.MasterForKey(ctx, redisstore.DefaultPrefix+key)
		if err != nil {
			return nil, err
		}
		if wanted[primary.Options().Addr] {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// turn measures the subject for a time.
func (s *spread) turn(ctx context.Context, order load.Order, length time.Duration) error {
	before, err := s.spent(ctx)
	if err != nil {
		return err
	}
	res, err := load.Run(ctx, load.Options{Callers: s.callers, For: length, Order: order, Decide: s.decide})
	if err != nil {
		return err
	}
	after, err := s.spent(ctx)
	if err != nil {
		return err
	}
	if res.Refused > 0 {
		return errors.New("a bucket that is never full refused a unit")
	}
	decisions := float64(res.Accepted)
	s.rate = append(s.rate, res.PerSecond())
	s.server = append(s.server, (after.server-before.server).Seconds()*1e6/decisions)
	s.client = append(s.client, (after.client-before.client).Seconds()*1e6/decisions)
	s.batch = append(s.batch, decisions/(after.scripts-before.scripts))
	s.p99 = append(s.p99, res.Took.Quantile(0.99))
	return nil
}

// spent is the CPU time of servers and of this process, and the number of scripts.
type spent struct {
	server, client time.Duration
	scripts        float64
}

func (s *spread) spent(ctx context.Context) (sum spent, err error) {
	if sum.server, err = s.used.Worked(ctx); err != nil {
		return sum, err
	}
	if sum.scripts, err = s.used.Sum(ctx, redises.Scripts); err != nil {
		return sum, err
	}
	sum.client, err = ownTime()
	return sum, err
}

// ownTime returns the CPU time of this process. It reads the fields utime and stime of
// /proc/self/stat, in hundredths of a second; see proc(5).
func ownTime() (time.Duration, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, fmt.Errorf("the CPU time of this process: %w", err)
	}
	return parseStat(string(stat))
}

func parseStat(stat string) (sum time.Duration, err error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // the name of a program may have spaces
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/self/stat has %d fields behind the name", len(fields))
	}
	for _, field := range fields[11:13] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/self/stat: %w", err)
		}
		sum += time.Duration(ticks) * time.Second / 100
	}
	return sum, nil
}
