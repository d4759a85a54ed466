package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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

// judge reads the error of a call. decide.lua reads by redis.call before it writes, and catches
// the errors of writes. So an error of a command means that nothing was applied, and only an
// error of the script itself may come after a write.
func (c *call) judge() verdict {
	var answer redis.Error
	if !errors.As(c.err, &answer) {
		if !c.input.sent {
			return unsent
		}
		return unknown
	}
	word, _, _ := strings.Cut(answer.Error(), " ")
	if meaning := answers[word].verdict; meaning != refused {
		return meaning
	}
	text := answer.Error()
	if c.script == crossScript && (strings.Contains(text, "ompil") || strings.Contains(text, "flag") ||
		word == "CROSSSLOT") {
		return noFlags
	}
	switch {
	case strings.Contains(text, "max number of clients"):
		return again
	case word == "ERR" && strings.Contains(text, "user_script") && !strings.Contains(text, "called from"):
		return unknown
	}
	return refused
}

// explainCall makes the error that callers see: a sentinel, the cause and the way out. It never
// quotes text of the server in which a key could stand.
func (s *Store) explainCall(c *call) error {
	switch c.judge() {
	case unknown:
		return explain(store.ErrUnknownOutcome, c.err, s.patience)
	case unsent:
		return explain(store.ErrUnavailable, s.unconnected(c.err), s.patience)
	}
	return explain(store.ErrUnavailable, c.err, s.patience)
}

// explain is explainCall for an error that has been judged.
func explain(sentinel, err error, timeout time.Duration) error {
	var answer redis.Error
	switch {
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrUnknownOutcome):
		return err
	case errors.As(err, &answer):
		word, _, _ := strings.Cut(answer.Error(), " ")
		return fmt.Errorf("%w: %w", sentinel, &serverError{answer, word, advice(answer.Error())})
	case errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: the client is closed; close the store first, then the client", sentinel)
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return fmt.Errorf("%w: no connection of the client was free; make its PoolSize larger", sentinel)
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		// The deadline is the store's and not the caller's, so the context's error is not wrapped.
		return fmt.Errorf("%w: no answer within %v; see Options.CallTimeout and the client's ReadTimeout", sentinel, timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%w: the server closed the connection", sentinel)
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// serverError is an answer of the server. It says the first word of the answer only, since the rest
// can quote a key.
type serverError struct {
	answer       redis.Error
	word, advice string
}

func (e *serverError) Error() string {
	return "the server answered " + e.word + ": " + e.advice
}

// Unwrap returns the client's error, for its full text.
func (e *serverError) Unwrap() error { return e.answer }

// known is an answer of a server: its meaning, the advice for callers, and for [Check] the subject and
// the remedy.
type known struct {
	verdict
	advice, subject, remedy string
}

// answers are those by their first words. Commands stand between backquotes; the tests run them.
var answers = map[string]known{
	"NOSCRIPT": {verdict: noScript},
	"OOM": {
		refused, "its memory is full; raise maxmemory, or remove keys", "maxmemory",
		"remove keys; or `CONFIG SET maxmemory 0` if the machine has room, also in its configuration file",
	},
	"READONLY": {verdict: again, advice: "it is a replica, and decisions are made on the primary; connect to that, for instance through Sentinel"},
	"LOADING":  {again, "it is loading its data after a start", "loading", "wait until the server has loaded its data"},
	"BUSY":     {again, "somebody's script runs for too long; see SCRIPT KILL", "script", "`SCRIPT KILL`"},
	"MISCONF": {
		refused, "it cannot write its data to the disk; look at its log", "persistence",
		"make room on its disk, or mend its directory, and then `BGSAVE`",
	},
	"NOREPLICAS": {
		refused, "it has fewer replicas than min-replicas-to-write asks for", "min-replicas-to-write",
		"start the replicas; or go on without, by `CONFIG SET min-replicas-to-write 0`",
	},
	"CLUSTERDOWN": {verdict: again, advice: "the primary of the bucket is down, and no replica has taken over yet"},
	"MASTERDOWN":  {verdict: again, advice: "the primary of the bucket is down, and no replica has taken over yet"},
	"TRYAGAIN":    {verdict: split, advice: "the buckets of the call are moving to another server of the cluster"},
	"MOVED":       {verdict: redirect, advice: "the bucket moves from server to server faster than the client follows"},
	"ASK":         {verdict: redirect, advice: "the bucket moves from server to server faster than the client follows"},
	"NOAUTH":      {refused, "check the user and the password", "password", "give the client the user and the password"},
	"WRONGPASS":   {refused, "check the user and the password", "password", "give the client the user and the password"},
	"NOPERM":      {refused, "grant the user the commands and the key pattern that docs/redis.md lists", "rights", ""},
}

// advice returns the way out for an answer of the server.
func advice(text string) string {
	word, _, _ := strings.Cut(text, " ")
	if known := answers[word].advice; known != "" {
		return known
	}
	for part, advice := range map[string]string{
		"max number of clients":    "it has no connection left; make the client's PoolSize smaller, or raise maxclients",
		"nknown":                   "a command that docs/redis.md lists is renamed or disabled, or the server is older than Redis 6.2",
		"syntax error":             "the server is older than Redis 6.2",
		"cluster support disabled": "it is no cluster; make the client by redis.NewClient",
	} {
		if strings.Contains(text, part) {
			return advice
		}
	}
	return "see the wrapped error for its words"
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
