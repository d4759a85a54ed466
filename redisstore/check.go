package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/internal/trial"
	"github.com/brimgo/brim/store"
)

// Check finds out whether a store with the options o can keep its promises, by trying: on the
// server, or each primary of the cluster, it makes a decision of each kind on buckets of its own,
// whose keys begin with "brim.check/" and which expire after some minutes. It also asks for
// settings and states that break or weaken the promises: version and role, eviction, the
// append-only file, replicas, and the state of the cluster. Of some 20,000 keys it reads those that
// are buckets, and counts the damaged ones. It sends INFO and CONFIG GET, and in a
// cluster CLUSTER INFO. If the user may not send one of them, a finding that is [store.Unchecked]
// names the command. o may be nil.
//
// An error means that [New] would refuse the options or the type of the client, or that a server
// gave no answer.
func Check(ctx context.Context, client redis.UniversalClient, o *Options) ([]store.Finding, error) {
	s, err := newStore(client, o)
	if err != nil {
		return nil, wrap("check", explain(nil, err, 0))
	}
	defer func() { _ = s.Close() }()
	k := &checker{s: s}
	if err := s.primaries(ctx, func(c *redis.Client) error { return k.server(ctx, c) }); err != nil {
		return nil, wrap("check", cmp.Or(ctx.Err(), err))
	}
	return k.findings, nil
}

// checker collects the findings of Check.
//
// A command stands between backquotes in a remedy. The tests run it.
type checker struct {
	s        *Store
	at       string // the address of the server in a cluster, behind the subject
	findings []store.Finding
}

func (k *checker) add(severity store.Severity, subject, problem, remedy string) {
	k.findings = append(k.findings, store.Finding{
		Severity: severity, Subject: subject + k.at, Problem: problem, Remedy: remedy,
	})
}

// server checks one server.
func (k *checker) server(ctx context.Context, c *redis.Client) error {
	if k.s.cluster != nil {
		k.at = " on " + c.Options().Addr
	}
	n := len(k.findings)
	if err := k.state(ctx, c); err != nil {
		return err
	}
	if slices.ContainsFunc(k.findings[n:], func(f store.Finding) bool {
		return f.Subject == "role"+k.at || f.Subject == "cluster_state"+k.at
	}) {
		return nil // they tell why no decision can work
	}
	n = len(k.findings)
	if err := k.try(ctx, c); err != nil || len(k.findings) > n { // no decision works
		return err
	}
	return k.sample(ctx, c)
}

// samplePages is how many times a sample sends SCAN. The replies take some tenths of a second.
const samplePages = 20

// sample reads the buckets among the first keys of a server, and counts those that are damaged.
func (k *checker) sample(ctx context.Context, c *redis.Client) error {
	pages, looked, damaged := 0, 0, 0
	err := k.s.scanOne(ctx, c, "", func(keys []string) error {
		buckets := make([]store.Bucket, len(keys))
		for i, key := range keys {
			buckets[i].Key = key
		}
		got, errs := k.s.each(ctx, modeRead, buckets...)
		for i := range keys {
			if err := cmp.Or(errs[i], got[i].result.Err); errors.Is(err, store.ErrCorrupt) {
				damaged++
			} else if err != nil {
				return onlyRead(ctx, err)
			}
		}
		looked += len(keys)
		if pages++; pages == samplePages {
			return errStop
		}
		return nil
	})
	if damaged > 0 {
		k.add(store.Broken, "buckets", fmt.Sprintf("of %d keys, %d hold a text that is no bucket, and calls for them fail", looked, damaged),
			"Reset removes such a text; look for another program that writes keys with the prefix of the store")
	}
	if err == errStop {
		return nil
	}
	return err
}

// try makes a decision of each kind on a server.
func (k *checker) try(ctx context.Context, c *redis.Client) error {
	key := trial.Key()
	if k.s.cluster != nil {
		tags := 0
		for owner := (*redis.Client)(nil); owner != c; tags++ {
			if tags == 4*slotCount {
				return nil // the primary has no slots, or the prefix keeps all buckets on another one
			}
			key = fmt.Sprintf("%s{%d}%s", trial.Prefix, tags, rand.Text())
			var err error
			if owner, err = k.s.cluster.primary(k.s.name(key)); err != nil {
				return err
			}
		}
	}
	if all, err := k.rights(ctx, c, key); !all {
		return err
	}
	err := trial.Decide(ctx, k.s, key)
	if err == nil {
		return nil
	}
	var failure *trial.Failure
	var answer redis.Error
	errors.As(err, &failure)
	switch {
	case errors.As(err, &answer):
		known := read(answer)
		k.add(store.Broken, cmp.Or(known.subject, "decision"), fmt.Sprintf("%s failed: %v", failure.Step, &serverError{answer, known}),
			cmp.Or(known.remedy, "see the table of errors in docs/redis.md"))
	case errors.Is(err, errFew):
		k.add(store.Broken, "acknowledgement", failure.Error(), "start the replicas that Options.Replicas asks for, or ask for fewer; "+
			"for Options.Synced, look at the server's log")
	case failure.Err == nil:
		k.add(store.Broken, "decision", failure.Error(), "look for another program that writes keys with the prefix of the store")
	default:
		return failure.Err
	}
	return nil
}

// rights finds out which rights the user lacks, by sending each command of the store on a key of
// its own, and reports whether the user has all.
func (k *checker) rights(ctx context.Context, c *redis.Client, key string) (all bool, err error) {
	const script = "return 1"
	name := k.s.name(key)
	tries := [][]any{
		{"eval", script, 1, name}, // the user may use the key, if it may send the next
		{"eval", script, 0},
		{"evalsha", slotScript.hash, 0},
		{"time"},
		{"get", name},
		{"getrange", name, 0, longest},
		{"set", name, "0 0.000000 1 1", "ex", 1},
		{"del", name},
		{"scan", 0},
	}
	if k.s.cluster != nil {
		tries = append(tries, []any{"asking"}, []any{"time"}) // ASKING holds for the next command
	}
	if k.s.o.Replicas > 0 {
		tries = append(tries, []any{"wait", 0, 1})
	}
	if k.s.o.Synced {
		tries = append(tries, []any{"waitaof", 0, 0, 1})
	}
	ctx, cancel := context.WithTimeout(ctx, k.s.o.CallTimeout)
	defer cancel()
	pipe := c.Pipeline()
	var sent []*redis.Cmd
	for _, words := range tries {
		sent = append(sent, redis.NewCmd(ctx, words...))
		_ = pipe.Process(ctx, once{sent[len(sent)-1]})
	}
	_, _ = pipe.Exec(ctx) // the commands have the errors
	var missing []string
	for i, cmd := range sent {
		var answer redis.Error
		if cmd.Err() != nil && !errors.As(cmd.Err(), &answer) {
			return false, explain(nil, cmd.Err(), k.s.patience)
		}
		if right := "+" + cmd.Name(); redis.IsPermissionError(cmd.Err()) && !slices.Contains(missing, right) && i > 0 {
			missing = append(missing, right)
		}
	}
	if redis.IsPermissionError(sent[0].Err()) && !redis.IsPermissionError(sent[1].Err()) {
		missing = append([]string{"~" + k.s.o.Prefix + "*"}, missing...)
	}
	if missing == nil {
		return true, nil
	}
	rights := strings.Join(missing, " ")
	k.add(store.Broken, "rights", fmt.Sprintf("the user %s lacks %s", user(c), rights),
		fmt.Sprintf("`ACL SETUSER %s %s`, and the same in the file of the ACLs", user(c), rights))
	return false, nil
}

func user(c *redis.Client) string { return cmp.Or(c.Options().Username, "default") }

// state asks a server for its settings and its state, and judges them.
func (k *checker) state(ctx context.Context, c *redis.Client) error {
	text, err := ask(ctx, k.s, c, redis.NewStringCmd, "info", "default").Result()
	if err := k.allowed(c, err, "INFO", "its version, its role, eviction and the append-only file"); err != nil {
		return err
	}
	info, config := fields(text), make(map[string]string)
	for _, name := range []string{"appendfsync", "cluster-require-full-coverage", "min-replicas-to-write", "no-appendfsync-on-rewrite"} {
		got, err := ask(ctx, k.s, c, redis.NewMapStringStringCmd, "config", "get", name).Result()
		if k.allowed(c, err, "CONFIG GET", "when it syncs its file, and how many replicas it asks for") != nil {
			return explain(nil, err, k.s.patience)
		}
		if config[name] = got[name]; err != nil {
			break
		}
	}
	state := ""
	if k.s.cluster != nil {
		text, err := ask(ctx, k.s, c, redis.NewStringCmd, "cluster", "info").Result()
		if err := k.allowed(c, err, "CLUSTER INFO", "the state of the cluster"); err != nil {
			return err
		}
		state = fields(text)["cluster_state"]
	}
	if err := k.s.checkVersion(info); err != nil {
		k.add(store.Broken, "version", err.Error(), "connect to a server of Redis 6.2 or later, or Valkey 7.2 or later, as it says")
	}
	policy, fsync, replicas := info["maxmemory_policy"], config["appendfsync"], info["connected_slaves"]
	lost := map[string]string{"everysec": "the fills of the last second or two"}[fsync]
	for _, f := range []struct {
		found                    bool
		severity                 store.Severity
		subject, problem, remedy string
	}{
		{
			info["role"] == "slave", store.Broken, "role", "the server is a replica: it is behind its primary, and refuses to decide",
			"connect to the primary, for instance through Sentinel",
		},
		{
			policy != "" && policy != noEviction, store.Broken, "maxmemory-policy",
			"it is " + policy + ": when the memory is full, the server removes buckets, which then forget what was taken",
			"`CONFIG SET maxmemory-policy noeviction`, also in its configuration file",
		},
		{
			info["aof_enabled"] == "0", store.Broken, "appendonly",
			"it is no: a crash of the server loses all fills since the last snapshot, or all",
			"`CONFIG SET appendonly yes`, also in its configuration file",
		},
		{
			info["aof_enabled"] != "0" && fsync != "" && fsync != "always", store.Warning, "appendfsync",
			fmt.Sprintf("it is %s: a crash of the machine loses %s", fsync,
				cmp.Or(lost, "all fills that the system had not written yet, some 30 seconds")),
			"`CONFIG SET appendfsync always`, or Options.Synced from Redis 7.2 on, where nothing may be lost",
		},
		{
			info["aof_enabled"] != "0" && config["no-appendfsync-on-rewrite"] == "yes", store.Warning, "no-appendfsync-on-rewrite",
			"it is yes: while the file is rewritten, nothing is synced", "`CONFIG SET no-appendfsync-on-rewrite no`",
		},
		{
			replicas != "0" && replicas != "" && config["min-replicas-to-write"] == "0", store.Warning, "min-replicas-to-write",
			"it is 0: a primary that is cut off from its replicas goes on to acknowledge fills that the fail-over loses",
			"`CONFIG SET min-replicas-to-write 1`, and Options.Replicas",
		},
		{
			k.s.cluster != nil && info["role"] == "master" && replicas == "0", store.Warning, "replicas",
			"the primary has no replica: if it fails, its buckets are refused until it is back", "add a replica with cluster-replicate",
		},
		{
			k.s.cluster != nil && config["cluster-require-full-coverage"] == "yes", store.Warning, "cluster-require-full-coverage",
			"it is yes: while one primary has no successor, the others refuse their buckets, too",
			"`CONFIG SET cluster-require-full-coverage no`",
		},
		{
			state != "" && state != "ok", store.Broken, "cluster_state", "the cluster is down for some slots, and refuses their buckets",
			"see CLUSTER SLOTS and CLUSTER NODES; start the missing primary, or assign its slots",
		},
	} {
		if f.found {
			k.add(f.severity, f.subject, f.problem, f.remedy)
		}
	}
	return nil
}

// allowed adds a finding if the server forbids a command, or returns the error of a server that
// gives no answer. That it is loading, the decision shows.
func (k *checker) allowed(c *redis.Client, err error, command, question string) error {
	var answer redis.Error
	switch {
	case err == nil || redis.IsLoadingError(err):
		return nil
	case !errors.As(err, &answer), redis.IsAuthError(err):
		return explain(nil, err, k.s.patience)
	}
	k.add(store.Unchecked, command, "the server does not let this user ask it "+question,
		fmt.Sprintf("`ACL SETUSER %s +%s`, or run the check as an administrator", user(c), strings.ToLower(strings.ReplaceAll(command, " ", "|"))))
	return nil
}
