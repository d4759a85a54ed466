package serverload

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// EndedRedis calls hangUp, which closes the connections of that client name, until the server has
// none of them. The server may still carry out a command that it has received until then, although
// nobody waits for its answer any more. direct is a client of another name.
func EndedRedis(ctx context.Context, direct *redis.Client, name string, hangUp func()) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		hangUp()
		list, err := direct.ClientList(ctx).Result()
		if err != nil {
			return err
		}
		if !strings.Contains(list, " name="+name+" ") {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("the connections of " + name + " do not end")
		}
	}
}

// Dialed are the connections that a client of Redis has made.
type Dialed struct {
	mu    sync.Mutex
	conns []net.Conn
	addr  func() string
}

// NewDialed returns the connections of a client, none so far. addr returns the server's address at
// the time of a dial.
func NewDialed(addr func() string) *Dialed { return &Dialed{addr: addr} }

// Dial is the Dialer of the client's options.
func (d *Dialed) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, network, d.addr())
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conns = append(d.conns, c)
	return c, nil
}

// HangUp closes all connections. The client notices when it next needs one.
func (d *Dialed) HangUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		_ = c.Close() // the client may have closed it
	}
	d.conns = nil
}
