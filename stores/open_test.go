package stores

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/internal/place"
	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/migrations"
	"github.com/brimgo/brim/store"
)

func TestMain(m *testing.M) {
	code := pgtest.Run(redistest.With(m))
	if err := goleak.Find(); err != nil && code == 0 {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}

// migrated returns the name of a store in a new schema with its tables.
func migrated(t *testing.T) string {
	t.Helper()
	schema := pgtest.Schema(t)
	must(t, migrations.Up(t.Context(), pgtest.Pool(t), &migrations.Options{Schema: schema}))
	return with(t, pgtest.URL(t), "brim_schema", schema)
}

// with returns a URL with one more parameter.
func with(t *testing.T, name, key, value string) string {
	t.Helper()
	u, err := url.Parse(name)
	must(t, err)
	q := u.Query()
	q.Set(key, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// certificate writes a certificate for 127.0.0.1 and its key, and returns their paths.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	write := func(name, kind string, data []byte) string {
		path := filepath.Join(t.TempDir(), name)
		must(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", secret)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// unusedPort returns a port on which nobody listens.
func unusedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// secured returns a server with that password, its port for TLS, and its socket.
func secured(t *testing.T, password string) (server *redistest.Server, tls int, socket string) {
	t.Helper()
	cert, key := certificate(t)
	tls, socket = unusedPort(t), filepath.Join(t.TempDir(), "r.sock")
	server = redistest.NewServer(t, "requirepass "+password, "unixsocket "+socket, fmt.Sprintf("tls-port %d", tls),
		"tls-cert-file "+cert, "tls-key-file "+key, "tls-ca-cert-file "+cert, "tls-auth-clients no")
	return server, tls, socket
}

// password is the password in the names of these tests. No message contains it by chance.
const password = "s3cr3t"

// TestOpen has each kind of name open a store that decides, lists and closes.
func TestOpen(t *testing.T) {
	t.Chdir(t.TempDir())
	server, tls, socket := secured(t, "pw")
	cluster := redistest.NewCluster(t)
	sentinel := redistest.NewSentinel(t, redistest.NewServer(t))
	for _, c := range []struct {
		name string
		kind place.Kind
	}{
		{"limits.db", place.File},
		{"file:odd?name:with@all.db", place.File},
		{"memory:", place.Memory},
		{migrated(t), place.PostgreSQL},
		{"redis://:pw@" + server.Addr(), place.Redis},
		{"redis://default:pw@" + server.Addr() + "/1?brim_prefix=x:", place.Redis},
		{fmt.Sprintf("rediss://:pw@127.0.0.1:%d/2?skip_verify=true", tls), place.Redis},
		{"redis+unix://:pw@" + socket + "?db=3", place.Redis},
		// The first seed does not answer.
		{fmt.Sprintf("redis+cluster://127.0.0.1:%d?addr=%s&addr=%s", unusedPort(t), cluster.Addrs()[0], cluster.Addrs()[1]), place.Redis},
		{"redis+sentinel://" + sentinel.Addr() + "?master_name=" + redistest.SentinelName, place.Redis},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := Open(t.Context(), c.name, nil)
			must(t, err)
			limiter := brim.New(s, nil)
			bucket := brim.Limit{Capacity: 5, LeakRate: 0}.For("k")
			for i, want := range []bool{true, false} {
				if st, err := limiter.TryFillup(t.Context(), bucket, 3); err != nil || st.Accepted != want {
					t.Errorf("fill %d: %+v, %v", i, st, err)
				}
			}
			for e, err := range limiter.List(t.Context(), "") {
				if err != nil || e.Key != "k" || e.Level != 3 {
					t.Errorf("listed %+v, %v", e, err)
				}
			}
			if strings.Contains(s.Name, "pw@") || (s.Bolt != nil) != (c.kind == place.File) ||
				(s.Postgres != nil && s.Pool != nil) != (c.kind == place.PostgreSQL) ||
				(s.Redis != nil && s.Client != nil) != (c.kind == place.Redis) {
				t.Errorf("the parts of the backend are %+v", s)
			}
			for range 2 {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			if _, err := s.Read(t.Context(), bucket); !errors.Is(err, store.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
	left, err := os.ReadDir(".")
	must(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if want := []string{"limits.db", "odd?name:with@all.db"}; !slices.Equal(names, want) {
		t.Errorf("the files are %q; want %q", names, want)
	}
	// Each database and each prefix has buckets of its own.
	client := server.Client(t)
	must(t, client.Do(t.Context(), "AUTH", "pw").Err())
	for db, want := range []string{"brim:k", "x:k", "brim:k", "brim:k"} {
		conn := client.Conn()
		must(t, conn.Do(t.Context(), "AUTH", "pw").Err())
		must(t, conn.Do(t.Context(), "SELECT", db).Err())
		if got, err := conn.Keys(t.Context(), "*").Result(); err != nil || !slices.Equal(got, []string{want}) {
			t.Errorf("database %d has %q, %v; want %q", db, got, err, want)
		}
		conn.Close()
	}
}

// TestOpenFails has a password in names whose server does not answer, or does not accept it. No
// error and no log entry contains it.
func TestOpenFails(t *testing.T) {
	t.Chdir(t.TempDir())
	server, tls, socket := secured(t, "other")
	evicting := redistest.NewServer(t, "maxmemory-policy allkeys-lru")
	nobody := fmt.Sprintf("127.0.0.1:%d", unusedPort(t))
	pg, err := url.Parse(migrated(t))
	must(t, err)
	pg.User = url.UserPassword("nobody", password)
	for _, c := range []struct {
		name string
		says string
	}{
		{"postgres://u:s3cr3t@" + nobody + "/db", "connection refused"},
		{"postgres://u@" + nobody + "/db?password=s3cr3t", "connection refused"},
		{pg.String(), "nobody"},
		{"redis://u:s3cr3t@" + nobody, "connection refused"},
		{"redis://u:s3cr3t@" + server.Addr(), "WRONGPASS"},
		{"redis://" + server.Addr(), "NOAUTH"},
		{"redis://" + evicting.Addr(), "maxmemory-policy"},
		{fmt.Sprintf("rediss://u:s3cr3t@127.0.0.1:%d", tls), "certificate"},
		{fmt.Sprintf("rediss://u:s3cr3t@127.0.0.1:%d?skip_verify=true", tls), "WRONGPASS"},
		{"redis+unix://u:s3cr3t@" + socket, "WRONGPASS"},
		{"redis+unix://u:s3cr3t@" + socket + ".no", "no such file"},
		{"redis+cluster://u:s3cr3t@" + nobody, "connection refused"},
		{"redis+cluster://u:s3cr3t@" + server.Addr(), "WRONGPASS"},
		{"redis+sentinel://u:s3cr3t@" + server.Addr() + "?master_name=m&dial_timeout=1s", ""},
		{"redis+sentinel://" + nobody + "?master_name=m&password=s3cr3t&dial_timeout=1s", ""},
		{"no/such/directory/limits.db", "limits.db"},
	} {
		var log strings.Builder
		s, err := Open(t.Context(), c.name, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err == nil {
			t.Errorf("%s: opened", c.name)
			s.Close()
			continue
		}
		text := fmt.Sprintf("%v %+v %#v", err, err, err)
		if !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrMisconfigured) || !strings.Contains(text, c.says) {
			t.Errorf("%s: %v; want ErrUnavailable or ErrMisconfigured, and the words %q", c.name, err, c.says)
		}
		if strings.Contains(text+log.String(), password) {
			t.Errorf("%s: the password shows in %s, or in the log %s", c.name, text, log.String())
		}
	}
	if left, _ := os.ReadDir("."); len(left) != 0 {
		t.Errorf("failures left files behind: %v", left)
	}
}

func TestOptions(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	server := redistest.NewServer(t)
	for _, name := range []string{"memory:", filepath.Join(t.TempDir(), "limits.db"), migrated(t), server.URL()} {
		s, err := Open(t.Context(), name, &Options{Clock: func() time.Time { return at }})
		must(t, err)
		states, err := s.Read(t.Context(), store.Bucket{Key: "k"})
		if err != nil || !states[0].At.Equal(at) {
			t.Errorf("%v: the time is %v, %v; want that of Options.Clock", s.Name, states, err)
		}
		must(t, s.Close())
		if _, err := Open(t.Context(), name, &Options{MaxSkew: -1}); err == nil || errors.Is(err, ErrName) {
			t.Errorf("%v with a negative MaxSkew: %v", s.Name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := filepath.Join(t.TempDir(), "limits.db")
	if _, err := Open(ctx, path, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("with a context that has ended, a file is made: %v", err)
	}
	if _, err := Open(t.Context(), "redis:/app:s3cr3t@cache.example", nil); !errors.Is(err, ErrName) || strings.Contains(err.Error(), password) {
		t.Errorf("a wrong name: %v", err)
	}
}
