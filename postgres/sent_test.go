package postgres_test

import (
	"context"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

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
	pool := tracedPool(t, names)
	narrow := store.Limit{Capacity: 1}
	type call = func(store.Store) error
	one := func(op store.Op) call {
		return func(s store.Store) error { _, err := s.Fill(t.Context(), op); return err }
	}
	apply := func(ops ...store.Op) call {
		return func(s store.Store) error { _, err := s.Apply(t.Context(), ops); return err }
	}
	read := func(keys ...string) call {
		return func(s store.Store) error {
			buckets := make([]store.Bucket, len(keys))
			for i, key := range keys {
				buckets[i].Key = key
			}
			_, err := s.Read(t.Context(), buckets...)
			return err
		}
	}
	visit := func(s store.Store) error { return s.Visit(t.Context(), "", func(store.Entry) bool { return true }) }
	remove := func(keys ...string) call {
		return func(s store.Store) error { return s.Delete(t.Context(), keys...) }
	}
	unit := func(key string) store.Op { return op(steady.For(key), 1, store.IfFits) }
	refused := op(narrow.For("full"), 1, store.IfFits)

	clock := newHandClock()
	schema := migrated(t)
	s := over(t, pool, postgres.Options{Schema: schema, Clock: clock.now})
	fill(t, s, refused)
	for range 150 { // then a refusal among them is rare
		fill(t, s, unit("a"))
	}
	for _, c := range []struct {
		why          string
		call         call
		want, joined string
	}{
		{
			"an amount that fits", one(unit("a")),
			"update_one(a)",
			"update_one(a)",
		},
		{
			"an amount that is refused", one(refused),
			"update_one(full) update_one(full) insert read",
			"update_one(full) by_index_keep lock read by_index_back",
		},
		{
			"an amount up to the rim", one(op(steady.For("a"), 1, store.Clamp)),
			"BEGIN by_index lock read write COMMIT",
			"by_index_keep lock read by_index_back by_index_keep write by_index_back",
		},
		{
			"an amount above the rim", one(op(steady.For("a"), 1, store.Always)),
			"BEGIN by_index lock read write COMMIT",
			"by_index_keep lock read by_index_back by_index_keep write by_index_back",
		},
		{
			"a hold", one(store.Op{Bucket: steady.For("a"), Hold: 1}),
			"BEGIN by_index lock read write COMMIT",
			"by_index_keep lock read by_index_back by_index_keep write by_index_back",
		},
		{
			"two buckets", apply(unit("b"), unit("a")),
			"BEGIN by_index lock read write COMMIT",
			"by_index_keep lock read by_index_back by_index_keep write by_index_back",
		},
		{
			"two buckets, one refuses", apply(unit("new"), refused),
			"BEGIN by_index lock read ROLLBACK",
			"by_index_keep lock read by_index_back",
		},
		{
			"a read", read("a"),
			"read",
			"read",
		},
		{
			"a read of two", read("b", "a"),
			"by_index read",
			"by_index_keep read by_index_back",
		},
		{
			"a read of none", read(),
			"",
			"",
		},
		{
			"a visit", visit,
			"by_index page()",
			"by_index_keep page() by_index_back",
		},
		{
			"a delete", remove("b", "a", "b"),
			"by_index delete",
			"by_index_keep delete by_index_back",
		},
		{
			"a delete of none", remove(),
			"",
			"",
		},
	} {
		names.take()
		if err := c.call(s); err != nil {
			t.Fatal(err)
		}
		if got := names.take(); got != c.want {
			t.Errorf("%s: %s; want %s", c.why, got, c.want)
		}
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names.take()
		if err := c.call(s.With(tx)); err != nil {
			t.Fatal(err)
		}
		if got := names.take(); got != c.joined {
			t.Errorf("%s, in a transaction: %s; want %s", c.why, got, c.joined)
		}
		end(t, tx, false)
	}

	for range 600 { // then the refusals above are rare
		fill(t, s, unit("a"))
	}
	// A refusal at another rate than the one last written changes the rate of the bucket under a
	// lock, once.
	other := op(store.Limit{Capacity: 1, LeakRate: 1}.For("full"), 1, store.IfFits)
	for _, want := range []string{"update_one(full) update_one(full) insert read BEGIN by_index lock read write COMMIT", "update_one(full) update_one(full) insert read"} {
		names.take()
		if st := fill(t, s, other); st.Accepted {
			t.Errorf("%+v; the bucket is full", st)
		}
		if got := names.take(); got != want {
			t.Errorf("a refusal at another rate: %s; want %s", got, want)
		}
	}
	refused.Amount = 2 // more than the capacity
	names.take()
	fill(t, s, refused)
	if got, want := names.take(), "update_one(full) update_one(full) insert read"; got != want {
		t.Errorf("a refusal for ever at another rate: %s; want %s", got, want)
	}

	// A new store does not know yet that refusals are rare, so it looks before it locks.
	fresh := over(t, pool, postgres.Options{Schema: schema, Clock: clock.now})
	names.take()
	fill(t, fresh, other)
	if got, want := names.take(), "update_one(full) insert read"; got != want {
		t.Errorf("a refusal by a new store: %s; want %s", got, want)
	}

	// A new bucket of a store that knows that such buckets are rare, and of one that does not.
	names.take()
	fill(t, s, unit("new"))
	if got, want := names.take(), "update_one(new) update_one(new) insert read"; got != want {
		t.Errorf("the first amount of a bucket: %s; want %s", got, want)
	}
	fresh = over(t, pool, postgres.Options{Schema: schema, Clock: clock.now})
	names.take()
	fill(t, fresh, unit("newer"))
	if got, want := names.take(), "update_one(newer) insert read"; got != want {
		t.Errorf("the first amount of a bucket by a new store: %s; want %s", got, want)
	}

	// Amounts that always go in create a missing bucket, too.
	for key, mode := range map[string]store.Mode{"clamped": store.Clamp, "spilled": store.Always} {
		names.take()
		fill(t, s, op(steady.For(key), 1, mode))
		const want = "BEGIN by_index lock read write COMMIT"
		if got := names.take(); got != want {
			t.Errorf("the first amount of %q: %s; want %s", key, got, want)
		}
	}
}
