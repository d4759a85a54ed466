package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/redistest"
	"github.com/brimgo/brim/store"
)

// classes are the errors of a store, of which an error is exactly one.
var classes = []error{
	store.ErrUnavailable, store.ErrUnknownOutcome, store.ErrMisconfigured, store.ErrCorrupt, store.ErrClosed, store.ErrFull,
}

// classed fails the test unless err is want, no other class, and says some words.
func classed(t *testing.T, name string, err, want error, says string) {
	t.Helper()
	for _, class := range classes {
		if errors.Is(err, class) != (class == want) {
			t.Errorf("%s: %v; want %v alone", name, err, want)
		}
	}
	if err != nil && !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v; want the words %q", name, err, says)
	}
}

// answer is an answer of a server.
type answered string

func (a answered) Error() string { return string(a) }
func (answered) RedisError()     {}

// TestAnswers reads the words of several servers. An answer that quotes a key is not taken for
// another.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		text string
		want verdict
		is   error
		says string
	}{
		{"OOM command not allowed when used memory > 'maxmemory'.", refused, store.ErrUnavailable, "maxmemory"},
		{"@user_script: 22: -OOM command not allowed when used memory > 'maxmemory'.", refused, store.ErrUnavailable, "maxmemory"},
		{"@user_script: 22: -NOREPLICAS Not enough good replicas to write.", refused, store.ErrUnavailable, "NOREPLICAS"},
		{"ERR max number of clients reached", again, store.ErrUnavailable, "maxclients"},
		{"ERR max number of clients + cluster connections reached", again, store.ErrUnavailable, "maxclients"},
		{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", again, store.ErrUnavailable, "primary"},
		{"ERR Script attempted to access a non local key in a cluster node", redirect, store.ErrUnavailable, "moves"},
		{"ERR Attempted to access a non local key in a cluster node script: c0ff, on @user_script:22.", redirect, store.ErrUnavailable, "moves"},
		{"ERR Script killed by user with SCRIPT KILL. script: c0ff, on @user_script:22.", again, store.ErrUnavailable, "SCRIPT KILL"},
		{"ERR user_script:22: attempt to index a nil value script: c0ff, on @user_script:22.", unknown, store.ErrUnknownOutcome, "words"},
		{
			"ERR Error running script (call to f_c0ff): @user_script:22: user_script:22: attempt to index a nil value",
			unknown, store.ErrUnknownOutcome, "words",
		},
		{"NOPERM this user has no permissions to run the 'evalsha' command", refused, store.ErrMisconfigured, "grant"},
		{"NOPERM No permissions to access a key", refused, store.ErrMisconfigured, "grant"},
		{"ERR The user executing the script can't run this command or subcommand", refused, store.ErrMisconfigured, "grant"},
		{"@user_script: 22: The user executing the script can't run this command or subcommand", refused, store.ErrMisconfigured, "grant"},
		{
			"@user_script: 22: The user executing the script can't access at least one of the keys mentioned in the command arguments",
			refused, store.ErrMisconfigured, "grant",
		},
		{"ERR ACL failure in script: User brim has no permissions to run the 'get' command", refused, store.ErrMisconfigured, "grant"},
		{"ERR unknown command 'EVALSHA', with args beginning with: 'c0ff' '1' 'brim:OOM' ", refused, store.ErrMisconfigured, "renamed"},
		{"ERR unknown command `EVALSHA`, with args beginning with: `c0ff`, ", refused, store.ErrMisconfigured, "renamed"},
		{"ERR Unknown Redis command called from script", refused, store.ErrMisconfigured, "renamed"},
		{"ERR Unknown command called from script script: c0ff, on @user_script:22.", refused, store.ErrMisconfigured, "renamed"},
		{"@user_script: 22: Unknown Redis command called from Lua script", refused, store.ErrMisconfigured, "renamed"},
		{"ERR syntax error", refused, store.ErrMisconfigured, "older"},
		{"ERR This instance has cluster support disabled", refused, store.ErrMisconfigured, "NewClient"},
		{"DENIED Redis is running in protected mode", refused, store.ErrMisconfigured, "words"},
		{"ERR something about 'max number of clients', LOADING", refused, store.ErrMisconfigured, "words"},
		{"BUSYKEY Target key name already exists.", refused, store.ErrMisconfigured, "words"},
	} {
		call := call{script: slotScript, err: answered(c.text)}
		if got := call.judge(); got != c.want {
			t.Errorf("%q: verdict %d, want %d", c.text, got, c.want)
		}
		classed(t, c.text, (&Store{}).explainCall(&call), c.is, c.says)
	}
}

// TestClassOfNew has New fail, by a server that is out of reach and by mistakes of several kinds.
func TestClassOfNew(t *testing.T) {
	server := redistest.NewServer(t, "requirepass pw")
	other := redistest.Client(t)
	nodes := redistest.ClusterClient(t)
	must(t, nodes.ForEachMaster(t.Context(), func(ctx context.Context, c *redis.Client) error {
		return c.Do(ctx, "ACL", "SETUSER", "silent", "on", ">pw", "~*", "+@all", "-info").Err()
	}))
	secure := httptest.NewTLSServer(nil)
	defer secure.Close()
	closed := redis.NewClient(&redis.Options{Addr: other.Options().Addr})
	must(t, closed.Close())
	use := func(o redis.Options) redis.UniversalClient {
		o.MaxRetries, o.DialerRetries = -1, 1
		return closing(t, redis.NewClient(&o))
	}
	for _, c := range []struct {
		name   string
		client redis.UniversalClient
		is     error
		says   string
	}{
		{"refused", use(redis.Options{Addr: "127.0.0.1:1"}), store.ErrUnavailable, "refused"},
		{"no such socket", use(redis.Options{Network: "unix", Addr: t.TempDir() + "/none"}), store.ErrUnavailable, "no such file"},
		{"no address", use(redis.Options{Addr: "127.0.0.1"}), store.ErrMisconfigured, "port"},
		{"no password", use(redis.Options{Addr: server.Addr()}), store.ErrMisconfigured, "NOAUTH"},
		{"another password", use(redis.Options{Addr: server.Addr(), Password: "no"}), store.ErrMisconfigured, "WRONGPASS"},
		{
			"a certificate of nobody", use(redis.Options{Addr: secure.Listener.Addr().String(), TLSConfig: &tls.Config{ServerName: "localhost"}}),
			store.ErrMisconfigured, "certificate",
		},
		{
			"a client of a cluster", closing(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{other.Options().Addr}})),
			store.ErrMisconfigured, "redis.NewClient",
		},
		{"a client of one server", use(redis.Options{Addr: nodes.Options().Addrs[0]}), store.ErrMisconfigured, "NewClusterClient"},
		{"closed", closed, store.ErrMisconfigured, "client is closed"},
	} {
		_, err := New(c.client, nil)
		classed(t, c.name, err, c.is, c.says)
		_, err = Check(t.Context(), c.client, nil)
		if c.name != "a client of one server" { // that is a finding
			classed(t, "Check: "+c.name, err, c.is, c.says)
		}
	}
	// A server that does not tell that it is part of a cluster says MOVED, which no retry mends.
	s := open(t, use(redis.Options{Addr: nodes.Options().Addrs[0], Username: "silent", Password: "pw"}), &Options{CallTimeout: 5 * time.Second})
	moved := 0
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		if _, err := s.Fill(t.Context(), store.Op{Bucket: tenUnits.For(key), Amount: 1}); err != nil {
			classed(t, "MOVED", err, store.ErrMisconfigured, "NewClusterClient")
			moved++
		}
	}
	if moved == 0 {
		t.Error("no bucket was on another server")
	}
	small := redistest.NewServer(t, "maxclients 1")
	must(t, small.Client(t).Ping(t.Context()).Err()) // this takes the only connection
	_, err := New(use(redis.Options{Addr: small.Addr()}), nil)
	classed(t, "no connection left", err, store.ErrUnavailable, "") // the pipe may break before the client has read the answer
}

// TestMissingRights takes one right after the other from a user. The calls that need it say so, and
// apply nothing; the others work. Check names the right, and its remedy gives it back.
func TestMissingRights(t *testing.T) {
	server := redistest.NewServer(t, "appendonly yes", "appendfsync always")
	admin := server.Client(t)
	ctx := t.Context()
	must(t, admin.Do(ctx, aclLine(t)...).Err())
	client := closing(t, redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "brim", Password: "secret"}))
	s := open(t, client, nil)
	calls := map[string]func() error{
		"fill":  func() error { return fill(ctx, s) },
		"read":  func() error { _, err := s.Read(ctx, tenUnits.For("b")); return err },
		"visit": func() error { _, err := list(ctx, s, ""); return err },
		"apply": func() error {
			res, err := s.Apply(ctx, store.Txn{{Bucket: tenUnits.For("a"), Amount: 1}, {Bucket: tenUnits.For("b"), Amount: 1}})
			return errors.Join(err, res0(res).Err)
		},
		"delete": func() error { return s.Delete(ctx, "b") },
	}
	deciding := "fill read visit apply delete"
	for _, c := range []struct{ right, take, fail string }{
		{"+eval", "-eval", "fill read visit apply delete"},
		{"+evalsha", "-evalsha", deciding},
		{"+time", "-time", deciding},
		{"+get", "-get", "apply"}, // of a bucket that does not exist
		{"+getrange", "-getrange", deciding},
		{"+set", "-set", "fill apply"},
		{"+del", "-del", "delete"},
		{"+scan", "-scan", "visit"},
		{"~brim:*", "resetkeys", deciding},
	} {
		for name, call := range calls {
			must(t, admin.FlushDB(ctx).Err())
			must(t, fill(ctx, s))
			before := admin.Get(ctx, "brim:b").Val()
			must(t, admin.Do(ctx, "ACL", "SETUSER", "brim", c.take).Err())
			must(t, admin.ScriptFlush(ctx).Err()) // EVAL is needed only then
			err := call()
			if want := strings.Contains(c.fail, name); want {
				classed(t, c.take+": "+name, err, store.ErrMisconfigured, "grant the user")
				if got := admin.Get(ctx, "brim:b").Val(); got != before || admin.DBSize(ctx).Val() != 1 {
					t.Errorf("%s: %s: the bucket was %q, and is %q", c.take, name, before, got)
				}
			} else if err != nil {
				t.Errorf("%s: %s: %v", c.take, name, err)
			}
			findings, got := check(t, client, nil)
			if got != "broken rights" || !strings.Contains(findings[0].Problem, c.right) {
				t.Fatalf("%s: %+v; want the right named", c.take, findings)
			}
			if c.right[0] == '+' && !strings.Contains(findings[0].Remedy, "ACL SETUSER brim "+c.right+"`") {
				t.Errorf("%s: remedy %q; want that right alone", c.take, findings[0].Remedy)
			}
			mend(t, admin, client)
		}
	}
}

// res0 returns the first result, if there is one.
func res0(res []store.Result) store.Result { return append(res, store.Result{})[0] }

// TestRefusedWriteAmongOthers has a script write one bucket of a user who may not remove another:
// each call has its own answer.
func TestRefusedWriteAmongOthers(t *testing.T) {
	server := redistest.NewServer(t)
	admin := server.Client(t)
	must(t, admin.Do(t.Context(), append(aclLine(t), "-del")...).Err())
	s := open(t, closing(t, redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "brim", Password: "secret"})), nil)
	must(t, fill(t.Context(), s))
	one := func(op store.Op) *fillRequest {
		return &fillRequest{In: request{one: [1]store.Op{op}, since: time.Now()}}
	}
	reqs := []*fillRequest{
		one(store.Op{Bucket: tenUnits.For("b"), Mode: modeDelete}), one(store.Op{Bucket: tenUnits.For("c"), Amount: 1}),
	}
	s.single.flush(0, reqs)
	classed(t, "delete", reqs[0].Err, store.ErrMisconfigured, "grant")
	if reqs[1].Err != nil || !reqs[1].Out.state.Accepted || level(t, s) != 1 {
		t.Errorf("the fill beside it: %+v, %v", reqs[1].Out.state, reqs[1].Err)
	}
}
