package lin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/internal/kv"
	"github.com/brimgo/brim/lab/internal/history"
	"github.com/brimgo/brim/local"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/spend/pgledger"
	"github.com/brimgo/brim/store"
)

// childEnv, in the environment, holds the setting of a child and makes a test binary one.
const childEnv = "BRIM_LIN_CHILD"

// setting is the store that a child opens.
type setting struct {
	Path    string         `json:"path"`
	Now     int64          `json:"now"` // of the history's clock
	Relaxed bool           `json:"relaxed,omitempty"`
	Window  time.Duration  `json:"window,omitempty"`  // of a relaxed store
	Segment int64          `json:"segment,omitempty"` // of a store's journal; 0 if it has none
	Defect  history.Defect `json:"defect,omitempty"`
	Bucket  []bucketOfKey  `json:"bucket,omitempty"`
	Budget  *budget        `json:"budget,omitempty"` // of a ledger, in the place of buckets

	// Of a store in PostgreSQL, in the place of a file:
	URL     string        `json:"url,omitempty"`
	Schema  string        `json:"schema,omitempty"`
	Timeout time.Duration `json:"timeout,omitempty"`
	Lease   bool          `json:"lease,omitempty"` // the client spends from leases
	Lazy    bool          `json:"lazy,omitempty"`  // the clock of the leases stops with the process: a defect
}

// order is a message to the child: a call, or a value of the clock.
type order struct {
	ID       int           `json:"id"`
	Now      int64         `json:"now,omitempty"`
	Op       *history.Op   `json:"op,omitempty"`
	Spend    *spendRequest `json:"spend,omitempty"`
	Patience time.Duration `json:"patience,omitempty"`
}

// reply is the child's answer to the order of that ID. The reply 0 says that the store is open.
type reply struct {
	ID     int             `json:"id"`
	Answer *history.Answer `json:"answer,omitempty"`
	Spend  *spendAnswer    `json:"spend,omitempty"`
}

// ServeAsChild carries out the orders of a parent until it is killed or the orders end, if this
// process is a child. A test binary must call it first of all.
func ServeAsChild() {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	if err := serve(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// server carries out orders.
type server struct {
	setting
	now     atomic.Int64
	s       store.Store
	budgets *budgets
	mu      sync.Mutex // held to write
	out     *json.Encoder
}

func serve(text string) (err error) {
	v := &server{out: json.NewEncoder(os.Stdout)}
	if err := json.Unmarshal([]byte(text), &v.setting); err != nil {
		return err
	}
	v.now.Store(v.Now)
	if err := v.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.s.Close()) }()
	if err := v.tell(reply{}); err != nil {
		return err
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	in := json.NewDecoder(bufio.NewReader(os.Stdin))
	for {
		var o order
		if err := in.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if o.Now != 0 {
			v.now.Store(o.Now)
			if err := v.tell(reply{ID: o.ID}); err != nil {
				return err
			}
			continue
		}
		calls.Go(func() {
			if err := v.tell(v.carryOut(o)); err != nil {
				os.Exit(1) // the parent has gone
			}
		})
	}
}

func (v *server) open() error {
	clock := func() time.Time { return time.UnixMicro(v.now.Load()) }
	o := &bolt.Options{Clock: clock, RelaxedWindow: v.Window, NoJournal: v.Segment == 0}
	if v.Segment > 0 {
		kv.DefaultSegment = v.Segment
	}
	if v.URL != "" {
		return v.connect()
	}
	if v.Relaxed || v.Defect == history.Early {
		s, err := bolt.OpenRelaxed(v.Path, o)
		if err != nil {
			return err
		}
		v.s = v.Defect.Wrap(s)
		return nil
	}
	s, err := bolt.Open(v.Path, o)
	if err != nil {
		return err
	}
	v.s = v.Defect.Wrap(s)
	if v.Budget == nil {
		return nil
	}
	l, err := boltledger.New(s, &boltledger.Options{Clock: clock})
	if err != nil {
		return err
	}
	v.budgets, err = v.Budget.over(l)
	return err
}

// connect opens a store or a ledger in PostgreSQL. Its connections end with the process.
func (v *server) connect() error {
	pool, err := pgxpool.New(context.Background(), v.URL)
	if err != nil {
		return err
	}
	s, err := postgres.New(pool, &postgres.Options{Schema: v.Schema, StatementTimeout: v.Timeout})
	if err != nil {
		return err
	}
	v.s = s
	if v.Lease {
		o := &local.LeasesOptions{Share: 0.9, Ahead: 500 * time.Millisecond}
		if v.Lazy {
			o.Clock = lazyClock()
		}
		v.s, err = local.Leases(s, o)
		return err
	}
	if v.Budget == nil {
		return nil
	}
	l, err := pgledger.New(s, nil)
	if err != nil {
		return err
	}
	v.budgets, err = v.Budget.over(l)
	return err
}

// lazyClock returns a clock that stops with the process.
func lazyClock() func() time.Time {
	var mu sync.Mutex
	last := time.Now()
	shown := last
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		shown = shown.Add(min(now.Sub(last), 20*time.Millisecond))
		last = now
		return shown
	}
}

func (v *server) tell(r reply) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.out.Encode(r)
}

func (v *server) carryOut(o order) reply {
	ctx := context.Background()
	if o.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Patience)
		defer cancel()
	}
	if o.Spend != nil {
		a := v.budgets.call(ctx, *o.Spend)
		return reply{ID: o.ID, Spend: &a}
	}
	a := history.CallOn(ctx, v.s, bucketsAt(v.Bucket), *o.Op)
	return reply{ID: o.ID, Answer: &a}
}

// process is the parent's end of a child.
type process struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	dead    chan struct{} // closed when the process has ended and all of its replies are read
	mu      sync.Mutex
	out     *json.Encoder
	next    int
	waiting map[int]chan reply
}

// startProcess starts this program again as a child and waits until its store is open.
func startProcess(s setting) (*process, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self), dead: make(chan struct{}), waiting: make(map[int]chan reply)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = json.NewEncoder(p.in)
	open := make(chan reply, 1)
	p.waiting[0] = open
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.read(out)
	select {
	case <-open:
		return p, nil
	case <-p.dead:
		return nil, fmt.Errorf("lin: the child ended before its store was open: %v", p.cmd.ProcessState)
	}
}

func (p *process) read(out io.Reader) {
	defer close(p.dead)
	in := json.NewDecoder(bufio.NewReader(out))
	for {
		var r reply
		if in.Decode(&r) != nil { // the pipe ends with the process, maybe amid a reply
			_ = p.cmd.Wait()
			return
		}
		p.mu.Lock()
		p.waiting[r.ID] <- r
		delete(p.waiting, r.ID)
		p.mu.Unlock()
	}
}

// ask sends an order and waits for the reply. It returns false if the process ends without one.
func (p *process) ask(o order) (r reply, ok bool) {
	answer := make(chan reply, 1)
	p.mu.Lock()
	p.next++
	o.ID = p.next
	p.waiting[o.ID] = answer
	err := p.out.Encode(o)
	p.mu.Unlock()
	if err == nil {
		select {
		case r := <-answer:
			return r, true
		case <-p.dead:
		}
	}
	<-p.dead
	select {
	case r := <-answer:
		return r, true
	default:
		return r, false
	}
}

// kill kills the process and waits for its end.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.dead
}

// end has the process close its store and end.
func (p *process) end() error {
	if err := p.in.Close(); err != nil {
		return err
	}
	<-p.dead
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("lin: the child ended with %v", p.cmd.ProcessState)
	}
	return nil
}

// path returns the path of the file in a directory.
func path(dir string) string { return filepath.Join(dir, "limits.db") }
