package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/redistest"
)

func TestDoctor(t *testing.T) {
	t.Parallel()
	path := storeIn(t)
	cli(t, "doctor", "--store", path).want(t, exitAbsent, "", "no such file")
	cli(t, "try", "k", "1", "--capacity", "1", "--leak-rate", "0", "--store", path).want(t, exitOK, "accepted", "")
	cli(t, "doctor", "--store", "memory:").want(t, exitOK, "every promise can be kept", "")
	cli(t, "doctor", "--store", "redis://:s3cr3t@127.0.0.1:1").want(t, exitUnavailable, "", "connection refused")
	cli(t, "doctor", "--store", "postgres://u:s3cr3t@127.0.0.1:1/db").want(t, exitUnavailable, "", "connection refused")
	cli(t, "doctor", "--store", filepath.Dir(path)).want(t, exitUnavailable, "", "regular file")
	if r := cli(t, "doctor", "--store", path); r.code != exitOK && !strings.Contains(r.stdout, "file system") {
		t.Errorf("a sound file: %+v", r) // a temporary directory may be a tmpfs
	}

	s := redistest.NewServer(t, "maxmemory-policy allkeys-lru", "appendonly yes")
	name := "redis://" + s.Addr()
	r := cli(t, "doctor", "--store", name)
	r.want(t, exitBroken, "broken: maxmemory-policy: ", "")
	// The worst finding comes first.
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "broken: ") || !strings.HasPrefix(lines[1], "warning: appendfsync: ") {
		t.Errorf("the findings are %q", lines)
	}
	r = cli(t, "doctor", "--store", name, "--json")
	if r.code != exitBroken || strings.Count(r.stdout, "\n") != 2 || !strings.Contains(r.stdout, `{"severity":"broken","subject":"maxmemory-policy",`) {
		t.Errorf("in JSON: %+v", r)
	}
	client := s.Client(t)
	for setting, value := range map[string]string{"maxmemory-policy": "noeviction", "appendfsync": "always"} {
		if err := client.ConfigSet(t.Context(), setting, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	cli(t, "doctor", "--store", name).want(t, exitOK, "every promise can be kept", "")
	cli(t, "doctor", "--store", name, "--json").want(t, exitOK, "", "")
}

func TestDoctorPostgres(t *testing.T) {
	s := server(t)
	cli(t, "doctor", "--store", s).want(t, exitBroken, `run `+"`brim migrate up`", "")
	s = migratedServer(t)
	cli(t, "doctor", "--store", s).want(t, exitOK, "every promise can be kept", "")
	cli(t, "doctor", "--store", s+"&synchronous_commit=off").want(t, exitBroken, "broken: synchronous_commit", "")
}

// TestDoctorFinds makes faults at which every call of a program fails, or will be lost. The command
// finds each by trying, and exits 1.
func TestDoctorFinds(t *testing.T) {
	pool := pgtest.Pool(t)
	for _, c := range []struct{ sql, want string }{
		{"ALTER TABLE %s.buckets FORCE ROW LEVEL SECURITY; ALTER TABLE %[1]s.buckets ENABLE ROW LEVEL SECURITY", "broken: row security: a fill failed: "},
		{"DROP TABLE %s.buckets_holds", "broken: table: there is no table"},
		{"ALTER TABLE %s.buckets_entries SET UNLOGGED", "broken: table: "},
		{"REVOKE INSERT ON %s.buckets_requests FROM %[2]s", "broken: rights: the user "},
	} {
		s := migratedServer(t)
		at, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		schema := at.Query().Get("brim_schema")
		role := schema + "_app"
		for _, sql := range []string{"CREATE ROLE %[2]s LOGIN", "GRANT USAGE ON SCHEMA %[1]s TO %[2]s", "GRANT ALL ON ALL TABLES IN SCHEMA %[1]s TO %[2]s"} {
			if _, err := pool.Exec(t.Context(), fmt.Sprintf(sql, schema, role)); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			if _, err := pgtest.Pool(t).Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
				t.Error(err)
			}
		})
		at.User = url.User(role)
		cli(t, "doctor", "--store", at.String()).want(t, exitOK, "every promise can be kept", "")
		if _, err := pool.Exec(t.Context(), fmt.Sprintf(c.sql+"; SELECT '%[2]s'", schema, role)); err != nil {
			t.Fatal(err)
		}
		cli(t, "doctor", "--store", at.String()).want(t, exitBroken, c.want, "")
	}
	server := redistest.NewServer(t, "appendonly yes", "appendfsync always")
	name := "redis://" + server.Addr()
	cli(t, "doctor", "--store", name).want(t, exitOK, "every promise can be kept", "")
	if err := server.Client(t).ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	cli(t, "doctor", "--store", name).want(t, exitBroken, "broken: maxmemory: a fill failed: the server answered OOM: ", "")
}
