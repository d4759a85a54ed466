package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/store"
)

// verdict is the meaning of a client's error for the script that was to run.
type verdict uint8

const (
	refused  verdict = iota // the server answered no: nothing was applied
	again                   // nothing was applied, and the same script may succeed soon
	noScript                // the server does not remember the script
	noFlags                 // the server does not know or allow scripts over several slots
	split                   // the keys of a slot that migrates are on two servers
	redirect                // another server has the keys
	unsent                  // nothing was sent
	unknown                 // the server may have applied it
)

// judge reads the error of a call. decide.lua catches the errors of all commands, and returns one
// only if nothing was applied. So only an error of Lua itself may come after a write.
func (c *call) judge() verdict {
	var answer redis.Error
	if !errors.As(c.err, &answer) {
		if !c.input.sent {
			return unsent
		}
		return unknown
	}
	meaning := read(answer).verdict
	if meaning == noFlags && c.script != crossScript {
		return refused
	}
	return meaning
}

// explainCall makes the error that callers see: a sentinel, the cause and the way out. It never
// quotes text of the server in which a key could stand.
func (s *Store) explainCall(c *call) error {
	switch meaning := c.judge(); {
	case meaning == unknown:
		return explain(store.ErrUnknownOutcome, c.err, s.patience)
	case meaning == unsent:
		return explain(nil, s.unconnected(c.err), s.patience)
	case meaning == redirect && s.single != nil:
		return errCluster
	}
	return explain(nil, c.err, s.patience)
}

// explain is explainCall for an error that has been judged. The sentinel is ErrUnknownOutcome, or
// nil if nothing was applied: then the error says whether the server is out of reach or
// misconfigured.
func explain(sentinel, err error, timeout time.Duration) error {
	var answer redis.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, store.ErrUnavailable),
		errors.Is(err, store.ErrUnknownOutcome), errors.Is(err, store.ErrMisconfigured):
		return err
	case errors.As(err, &answer):
		known := read(answer)
		return fmt.Errorf("%w: %w", cmp.Or(sentinel, known.class), &serverError{answer, known})
	case errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: the client is closed; close the store first, then the client", cmp.Or(sentinel, store.ErrMisconfigured))
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return fmt.Errorf("%w: no connection of the client was free; make its PoolSize larger", cmp.Or(sentinel, store.ErrUnavailable))
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		// The deadline is the store's and not the caller's, so the context's error is not wrapped.
		return fmt.Errorf("%w: no answer within %v; see Options.CallTimeout and the client's ReadTimeout",
			cmp.Or(sentinel, store.ErrUnavailable), timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the server closed the connection", cmp.Or(sentinel, store.ErrUnavailable))
	case outOfReach(err):
		return fmt.Errorf("%w: %w", cmp.Or(sentinel, store.ErrUnavailable), err)
	}
	return fmt.Errorf("%w: %w", cmp.Or(sentinel, store.ErrMisconfigured), err)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// outOfReach reports whether an error is one of the network. A TLS check that fails, an address
// that is none and a socket that the process may not open are mistakes.
func outOfReach(err error) bool {
	var op *net.OpError
	var addr *net.AddrError
	var system syscall.Errno
	return (errors.As(err, &op) && op.Op != "remote error" && !errors.As(err, &addr) || errors.As(err, &system)) &&
		!errors.Is(err, fs.ErrPermission)
}

// serverError is an answer of the server. It says the mark of the answer only, since the rest can
// quote a key.
type serverError struct {
	answer redis.Error
	known
}

func (e *serverError) Error() string { return "the server answered " + e.mark + ": " + e.advice }

// Unwrap returns the client's error, for its full text.
func (e *serverError) Unwrap() error { return e.answer }

// known is an answer of a server: its beginning, its meaning, its class, the advice for callers,
// and for [Check] the subject and the remedy.
type known struct {
	mark string
	verdict
	class                   error
	advice, subject, remedy string
}

// answers are those that the store knows. Any other is [store.ErrMisconfigured], so that no limit
// opens by a mistake. Commands stand between backquotes; the tests run them.
var answers = []known{
	{mark: "NOSCRIPT", verdict: noScript, class: store.ErrUnavailable, advice: "it forgets its scripts at once"},
	{
		"OOM", refused, store.ErrUnavailable, "its memory is full; raise maxmemory, or remove keys", "maxmemory",
		"remove keys; or `CONFIG SET maxmemory 0` if the machine has room, also in its configuration file",
	},
	{
		mark: "READONLY", verdict: again, class: store.ErrUnavailable,
		advice: "it is a replica, and decisions are made on the primary; connect to that, for instance through Sentinel",
	},
	{"LOADING", again, store.ErrUnavailable, "it is loading its data after a start", "loading", "wait until the server has loaded its data"},
	{"BUSY", again, store.ErrUnavailable, "somebody's script runs for too long; see SCRIPT KILL", "script", "`SCRIPT KILL`"},
	{mark: "Script killed", verdict: again, class: store.ErrUnavailable, advice: "somebody has sent SCRIPT KILL"},
	{
		"MISCONF", refused, store.ErrUnavailable, "it cannot write its data to the disk; look at its log", "persistence",
		"make room on its disk, or mend its directory, and then `BGSAVE`",
	},
	{
		"NOREPLICAS", refused, store.ErrUnavailable, "it has fewer replicas than min-replicas-to-write asks for", "min-replicas-to-write",
		"start the replicas; or go on without, by `CONFIG SET min-replicas-to-write 0`",
	},
	{mark: "max number of clients", verdict: again, class: store.ErrUnavailable, advice: adviceClients},
	{mark: "CLUSTERDOWN", verdict: again, class: store.ErrUnavailable, advice: adviceDown},
	{mark: "MASTERDOWN", verdict: again, class: store.ErrUnavailable, advice: adviceDown},
	{mark: "TRYAGAIN", verdict: split, class: store.ErrUnavailable, advice: "the buckets of the call are moving to another server of the cluster"},
	{mark: "MOVED", verdict: redirect, class: store.ErrUnavailable, advice: adviceMoved},
	{mark: "ASK", verdict: redirect, class: store.ErrUnavailable, advice: adviceMoved},
	{mark: "Script attempted to", verdict: redirect, class: store.ErrUnavailable, advice: adviceMoved},
	{mark: "Attempted to access a non local key", verdict: redirect, class: store.ErrUnavailable, advice: adviceMoved}, // Valkey 9
	{"NOAUTH", refused, store.ErrMisconfigured, advicePassword, "password", remedyPassword},
	{"WRONGPASS", refused, store.ErrMisconfigured, advicePassword, "password", remedyPassword},
	{mark: "NOPERM", class: store.ErrMisconfigured, advice: adviceRights, subject: "rights"},
	{mark: "ACL failure in script", class: store.ErrMisconfigured, advice: adviceRights, subject: "rights"},         // from Redis 7.2 on
	{mark: "The user executing the script", class: store.ErrMisconfigured, advice: adviceRights, subject: "rights"}, // before
	{mark: "unknown command", class: store.ErrMisconfigured, advice: adviceCommand},
	{mark: "Unknown Redis command", class: store.ErrMisconfigured, advice: adviceCommand},
	{mark: "Unknown command", class: store.ErrMisconfigured, advice: adviceCommand}, // Valkey 9
	{mark: "syntax error", class: store.ErrMisconfigured, advice: "the server is older than Redis 6.2"},
	{mark: "This instance has cluster support disabled", class: store.ErrMisconfigured, advice: "it is no cluster; make the client by redis.NewClient"},
	{mark: "WRONGTYPE", class: store.ErrCorrupt, advice: "the key of the bucket holds a value of another type; remove that key, or choose another Options.Prefix"},
	{mark: "CROSSSLOT", verdict: noFlags, class: store.ErrMisconfigured, advice: adviceOther},
	{mark: "Error compiling script", verdict: noFlags, class: store.ErrMisconfigured, advice: adviceOther},
	{mark: "Unexpected flag in script shebang", verdict: noFlags, class: store.ErrMisconfigured, advice: adviceOther},
	{mark: "user_script", verdict: unknown, class: store.ErrUnknownOutcome, advice: adviceOther},          // an error of Lua, from Redis 7 on
	{mark: "Error running script", verdict: unknown, class: store.ErrUnknownOutcome, advice: adviceOther}, // before
}

// The advice and the remedy of several answers.
const (
	adviceClients  = "it has no connection left; make the client's PoolSize smaller, or raise maxclients"
	adviceDown     = "the primary of the bucket is down, and no replica has taken over yet"
	adviceMoved    = "the bucket moves from server to server faster than the client follows"
	advicePassword = "check the user and the password"
	remedyPassword = "give the client the user and the password"
	adviceRights   = "grant the user the commands and the key pattern that docs/redis.md lists"
	adviceCommand  = "a command that docs/redis.md lists is renamed or disabled, or the server is older than Redis 6.2"
	adviceOther    = "see the wrapped error for its words"
)

// inScript is the beginning of an error of a command in a script, before Redis 7.
var inScript = regexp.MustCompile(`^@user_script: ?[0-9]+: -?`)

// read finds an answer among those that are known, by its beginning: the rest can quote a key.
func read(answer redis.Error) known {
	text := strings.TrimPrefix(inScript.ReplaceAllString(answer.Error(), ""), "ERR ")
	for _, k := range answers {
		if rest, ok := strings.CutPrefix(text, k.mark); ok && (rest == "" || strings.IndexByte(" :'", rest[0]) >= 0) {
			return k
		}
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	return known{mark: word, class: store.ErrMisconfigured, advice: adviceOther}
}

// onlyRead explains the error of a call that writes nothing: nothing was applied, however it ended.
func onlyRead(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, store.ErrUnknownOutcome):
		return fmt.Errorf("%w: the connection failed before the answer came", store.ErrUnavailable)
	}
	return err
}
