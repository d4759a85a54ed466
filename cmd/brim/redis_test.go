package main

import (
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/redistest"
)

// Every command but those of spend works over Redis.
func TestRedis(t *testing.T) {
	s := redistest.NewServer(t, "requirepass s3cr3t")
	store := "redis://:s3cr3t@" + s.Addr() + "/0?brim_prefix=limits:"
	on := func(args ...string) []string { return append(args, "--store", store) }
	limit := []string{"--capacity", "5", "--leak-rate", "0"}
	cli(t, append(on("try", "k", "3"), limit...)...).want(t, exitOK, "accepted", "")
	cli(t, append(on("try", "k", "3"), limit...)...).want(t, exitNever, "will not fit by waiting", "")
	cli(t, append(on("able", "k", "2"), limit...)...).want(t, exitOK, "yes", "")
	cli(t, append(on("fillup", "k", "9"), limit...)...).want(t, exitOK, "7", "")
	cli(t, append(on("drain", "k", "1"), limit...)...).want(t, exitOK, "level 4 of 5", "")
	cli(t, on("block", "k", "1h")...).want(t, exitOK, "blocked", "")
	cli(t, on("unblock", "k")...).want(t, exitOK, "not blocked", "")
	cli(t, on("list", "--json")...).want(t, exitOK, `"key":"k","level":4,`, "")
	cli(t, on("prune")...).want(t, exitOK, "pruned: 0", "")
	cli(t, on("compact")...).want(t, exitUsage, "", "give a bbolt file")
	r := cli(t, on("bench", "--callers", "4", "--keys", "20", "--duration", "100ms")...)
	r.want(t, exitOK, "redis://"+s.Addr()+"/0", "")
	cli(t, on("bench", "--reference")...).want(t, exitUsage, "", "no bare reference")
	cliIn(t, t.Context(), "time,key\n100,a\n101,a\n111,a\n", on("replay", "-", "--capacity", "1", "--leak-rate", "0.1", "--json")...).
		want(t, exitOK, `"accepted":2,"refused":1`, "")
	cli(t, on("reset", "k")...).want(t, exitOK, "reset: 1", "")
	cli(t, on("list", "--json")...).want(t, exitOK, "", "")
	wrong := cli(t, "list", "--store", strings.Replace(store, "s3cr3t", "pa55w0rd", 1))
	wrong.want(t, exitUnavailable, "", "WRONGPASS")
	if strings.Contains(wrong.stderr+r.stdout, "pa55w0rd") || strings.Contains(r.stdout+r.stderr, "s3cr3t") {
		t.Errorf("an answer shows the password: %s %s", wrong.stderr, r.stdout)
	}
}
