package lin

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/lab/internal/proxy"
)

// place is a migrated schema on a server. Histories use it at the same time.
type place struct {
	url    string
	schema string
	direct *pgxpool.Pool // connections that nothing cuts
	used   atomic.Int64  // names so far

	mu    sync.Mutex
	lines []*line // all
	free  []*line // those without a history
}

// prefix returns a beginning of names that nothing else has.
func (p *place) prefix() string { return fmt.Sprintf("%d-", p.used.Add(1)) }

// take returns a line for a history. The history gives it back with give.
func (p *place) take() (*line, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.free) - 1; last >= 0 {
		l := p.free[last]
		p.free = p.free[:last]
		return l, nil
	}
	l, err := p.connect()
	if err == nil {
		p.lines = append(p.lines, l)
	}
	return l, err
}

func (p *place) give(l *line) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, l)
}

// close ends the connections of all lines.
func (p *place) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		l.pool.Close()
		_ = l.proxy.Close() // no history is left to fail
	}
}

// line is a pool of connections through a proxy that cuts them. A new backend of PostgreSQL costs
// more than all statements of a history, so histories that follow each other share those
// connections that survive.
type line struct {
	name  string // of the connections
	proxy *proxy.Proxy
	pool  *pgxpool.Pool
}

// connections is the size of a line's pool.
const connections = 6

func (p *place) connect() (*line, error) {
	u, err := url.Parse(p.url)
	if err != nil {
		return nil, err
	}
	l := &line{name: "lin-" + p.prefix() + p.schema}
	if l.proxy, err = proxy.Start(u.Host); err != nil {
		return nil, err
	}
	u.Host = l.proxy.Addr()
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, err
	}
	config.MaxConns = connections
	config.ConnConfig.RuntimeParams["application_name"] = l.name
	l.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	return l, err
}

// quiet waits until nothing is under way: every backend of the line has ended, or its connection is
// idle in the pool. The pool keeps no connection whose last statement has not been answered.
func (l *line) quiet(direct *pgxpool.Pool) error {
	ctx := context.Background()
	for end := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		idle := []uint32{}
		for _, c := range l.pool.AcquireAllIdle(ctx) {
			idle = append(idle, c.Conn().PgConn().PID())
			c.Release()
		}
		var busy int
		if err := direct.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE application_name = $1 AND pid <> ALL($2)`, l.name, idle).Scan(&busy); err != nil || busy == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("lin: %d backends are still at work a minute after the last call", busy)
		}
	}
}
