package postgres_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/brimgo/brim/internal/docpage"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/store"
)

// sent keeps the names of the statements that the connections of a pool send.
type sent struct {
	mu    sync.Mutex
	names []string
}

var sentName = regexp.MustCompile(`^[A-Z]+ /\* brim:(?:buckets\.)?([a-z_]+) \*/`)

// add keeps the name of a statement, with its key if it is for one. It leaves out the questions
// that a store asks now and then.
func (s *sent) add(sql string, args []any) {
	name, _, _ := strings.Cut(sql, " ")
	if found := sentName.FindStringSubmatch(sql); found != nil {
		name = found[1]
	}
	switch name {
	case "pages", "session":
		return
	}
	if len(args) > 0 {
		if key, ok := args[0].(string); ok {
			name += "(" + key + ")"
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names = append(s.names, name)
}

// take returns the names since the last call.
func (s *sent) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.names, " ")
	s.names = nil
	return all
}

func (s *sent) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.add(q.SQL, q.Args)
	return ctx
}

func (*sent) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*sent) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

func (s *sent) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	s.add(q.SQL, q.Args)
}

func (*sent) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TestStatementsOfCalls sees which statements one caller sends over a small table, when refusals
// are rare: by calls of its own, and by calls in a transaction.
func TestStatementsOfCalls(t *testing.T) {
	names := &sent{}
	pool := pgtest.PoolAt(t, pgtest.URL(t), func(c *pgxpool.Config) { c.ConnConfig.Tracer = names })
	clock := newHandClock()
	schema := migrated(t)
	open := func() *postgres.Store { return over(t, pool, postgres.Options{Schema: schema, Clock: clock.now}) }
	s := open()
	type call = func(store.Store) error
	one := func(op store.Op) call {
		return func(s store.Store) error { _, err := s.Fill(t.Context(), op); return err }
	}
	apply := func(ops ...store.Op) call {
		return func(s store.Store) error { _, err := s.Apply(t.Context(), ops); return err }
	}
	read := func(buckets ...store.Bucket) call {
		return func(s store.Store) error { _, err := s.Read(t.Context(), buckets...); return err }
	}
	visit := func(s store.Store) error { return s.Visit(t.Context(), "", func(store.Entry) bool { return true }) }
	remove := func(keys ...string) call {
		return func(s store.Store) error { return s.Delete(t.Context(), keys...) }
	}
	// sends compares the statements that a call sends.
	sends := func(why string, s store.Store, call call, want string) {
		t.Helper()
		names.take()
		if err := call(s); err != nil {
			t.Fatal(err)
		}
		if got := names.take(); got != want {
			t.Errorf("%s: %s; want %s", why, got, want)
		}
	}
	unit := func(key string) store.Op { return op(steady.For(key), 1, store.IfFits) }
	refused := op(store.Limit{Capacity: 1}.For("full"), 1, store.IfFits)
	rare := func(others int) { // makes refusals rare among so many others
		for range others {
			fill(t, s, unit("a"))
		}
	}
	fill(t, s, refused)
	rare(150)

	const (
		locked       = "BEGIN by_index lock read write COMMIT"
		lockedWithin = "by_index_keep lock read by_index_back by_index_keep write by_index_back"
	)
	for _, c := range []struct {
		why          string
		call         call
		want, within string
	}{
		{"an amount that fits", one(unit("a")), "update_one(a)", "update_one(a)"},
		{"a booking", one(store.Op{Bucket: steady.For("a"), Amount: 1, Ceiling: 1e9, Turn: true}), "update_one(a)", "update_one(a)"},
		{
			"an amount that is refused", one(refused),
			"update_one(full) update_one(full) insert read",
			"update_one(full) by_index_keep lock read by_index_back",
		},
		{"an amount up to the rim", one(op(steady.For("a"), 1, store.Clamp)), locked, lockedWithin},
		{"an amount above the rim, of a new bucket", one(op(steady.For("spilled"), 1, store.Always)), locked, lockedWithin},
		{"a hold", one(store.Op{Bucket: steady.For("a"), Hold: 1}), locked, lockedWithin},
		{"two buckets", apply(unit("b"), unit("a")), locked, lockedWithin},
		{
			"two buckets, one refuses", apply(unit("new"), refused),
			"BEGIN by_index lock read ROLLBACK",
			"by_index_keep lock read by_index_back",
		},
		{"a read", read(steady.For("a")), "read", "read"},
		{"a read of two", read(steady.For("b"), steady.For("a")), "by_index read", "by_index_keep read by_index_back"},
		{"a read of none", read(), "", ""},
		{"a visit", visit, "by_index page()", "by_index_keep page() by_index_back"},
		{"a delete", remove("b", "a", "b"), "by_index delete", "by_index_keep delete by_index_back"},
		{"a delete of none", remove(), "", ""},
	} {
		sends(c.why, s, c.call, c.want)
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sends(c.why+", in a transaction", s.With(tx), c.call, c.within)
		end(t, tx, false)
	}

	rare(600)
	// A refusal at another rate than the one last written changes the rate of the bucket under a
	// lock, once.
	const looked = "update_one(full) update_one(full) insert read"
	other := op(store.Limit{Capacity: 1, LeakRate: 1}.For("full"), 1, store.IfFits)
	sends("a refusal at another rate", s, one(other), looked+" "+locked)
	sends("a refusal at that rate", s, one(other), looked)
	refused.Amount = 2 // more than the capacity
	sends("a refusal for ever at another rate", s, one(refused), looked)
	sends("the first amount of a bucket, where new buckets are rare", s, one(unit("new")),
		"update_one(new) update_one(new) insert read")
	// A new store does not know yet that refusals and new buckets are rare.
	sends("a refusal by a new store", open(), one(other), "update_one(full) insert read")
	sends("the first amount of a bucket by a new store", open(), one(unit("newer")), "update_one(newer) insert read")

	// In a transaction of database/sql, the arguments begin with one of the driver's.
	c := &charges{pool: pool, schema: schema, s: s}
	within := s.WithSQL(c.beginSQL(t, pgx.ReadCommitted))
	sends("the first amount in a transaction of database/sql", within, one(unit("a")), "update_one")
	sends("a hold in a transaction of database/sql", within, one(store.Op{Bucket: steady.For("a"), Hold: 1}), lockedWithin)
}

// TestStatementsOnThePage compares the statements of a call that can never fit, for a new key,
// with the table in docs/internals/postgres.md.
func TestStatementsOnThePage(t *testing.T) {
	for lane, before := range map[string]struct {
		op    store.Op
		times int
		first string // between the first statement and the others, which may be another round trip
	}{
		"refusals and new buckets are rare": {op(steady.For("a"), 1, store.IfFits), 300, "; then "},
		"refusals are frequent":             {op(store.Limit{Capacity: 1}.For("full"), 1, store.IfFits), 10, ", "},
		"new buckets are frequent":          {first: ", "},
	} {
		names := &sent{}
		pool := pgtest.PoolAt(t, pgtest.URL(t), func(c *pgxpool.Config) { c.ConnConfig.Tracer = names })
		schema := migrated(t)
		fill(t, over(t, pool, postgres.Options{Schema: schema}), op(store.Limit{Capacity: 1}.For("full"), 1, store.IfFits))
		fill(t, over(t, pool, postgres.Options{Schema: schema}), op(steady.For("a"), 1, store.IfFits))
		s := over(t, pool, postgres.Options{Schema: schema})
		for range before.times {
			fill(t, s, before.op)
		}
		names.take()
		if st := fill(t, s, op(store.Limit{Capacity: 1}.For("new"), 2, store.IfFits)); st.Accepted {
			t.Fatalf("%+v; want a refusal", st)
		}
		first, others, _ := strings.Cut(strings.ReplaceAll(names.take(), "(new)", ""), " ")
		says := "| " + lane + " | `" + first + "`" + before.first + "`" + strings.ReplaceAll(others, " ", "`, `") + "` |"
		if lacks := docpage.Lacks("../docs/internals/postgres.md", says); lacks != "" {
			t.Error(lacks)
		}
	}
}
