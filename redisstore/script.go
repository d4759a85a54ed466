package redisstore

import (
	"context"
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed decide.lua
var source string

// script is a Lua script and the name under which servers remember it.
type script struct{ source, hash string }

func newScript(source string) *script { return &script{source, redis.NewScript(source).Hash()} }

// scripts are the two forms of decide.lua.
var (
	// slotScript declares its keys. In a cluster they are in one slot.
	slotScript = newScript(source)
	// crossScript takes keys of any slots of one server of a cluster.
	crossScript = newScript("#!lua flags=allow-cross-slot-keys\n" + source)
)

// input is the last argument of a command. The client calls MarshalBinary when it writes the
// command to a connection. Before that, nothing has been sent.
type input struct {
	bytes []byte
	sent  bool
}

// MarshalBinary returns the bytes, and notes that they are being sent.
func (in *input) MarshalBinary() ([]byte, error) {
	in.sent = true
	return in.bytes, nil
}

// call is one run of a script, and its outcome.
type call struct {
	script *script
	keys   []string
	input  input
	asks   bool // whatever the answer, nothing is written

	reply []any
	err   error // as the client returned it
	short error // the write is there, but not as widely as Options ask
}

// command makes a command that runs the script by its hash, or by its source if the server does not
// remember it.
func (c *call) command(ctx context.Context, bySource bool) *redis.Cmd {
	args := append(make([]any, 0, len(c.keys)+4), "evalsha", c.script.hash, len(c.keys))
	if bySource {
		args[0], args[1] = "eval", c.script.source
	}
	if c.script == crossScript {
		args[2] = 0 // declared
	}
	for i := range c.keys {
		args = append(args, &c.keys[i])
	}
	c.input.sent = false
	return redis.NewCmd(ctx, append(args, &c.input)...)
}
