package main

import (
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/redistest"
)

// TestRedis measures and replays in a Redis, and shows its password nowhere.
func TestRedis(t *testing.T) {
	s := redistest.NewServer(t, "requirepass s3cr3t")
	store := "redis://:s3cr3t@" + s.Addr() + "/0?brim_prefix=limits:"
	on := func(args ...string) []string { return append(args, "--store", store) }
	r := cli(t, on("bench", "--callers", "4", "--keys", "20", "--duration", "100ms")...)
	r.want(t, exitOK, "redis://"+s.Addr()+"/0", "")
	cli(t, on("bench", "--reference")...).want(t, exitUsage, "", "no bare reference")
	cliIn(t, t.Context(), "time,key\n100,a\n101,a\n111,a\n", on("replay", "-", "--capacity", "1", "--leak-rate", "0.1", "--json")...).
		want(t, exitOK, `"accepted":2,"refused":1`, "")
	cli(t, on("list", "--json")...).want(t, exitOK, "", "")
	wrong := cli(t, "list", "--store", strings.Replace(store, "s3cr3t", "pa55w0rd", 1))
	wrong.want(t, exitUnavailable, "", "WRONGPASS")
	if strings.Contains(wrong.stderr+r.stdout, "pa55w0rd") || strings.Contains(r.stdout+r.stderr, "s3cr3t") {
		t.Errorf("an answer shows the password: %s %s", wrong.stderr, r.stdout)
	}
}
