package sqliterun

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"strings"
)

func typeOf(v any) string { return fmt.Sprintf("%T", v) }

// named puts the prefix of the tables into a statement.
func named(text, prefix string) string {
	return strings.ReplaceAll(text, "{{prefix}}", strings.ReplaceAll(prefix, `"`, `""`))
}

// sizes are the numbers of rows that an INSERT is prepared for, in descending order.
var sizes = [...]int{32, 8, 1}

// Statements are the prepared statements of a package, by the names of their files.
//
// A statement with {{in}} is prepared twice: for one value, and for a list. An INSERT is prepared
// for several numbers of rows: six statements a charge are slower than three for sixteen charges.
type Statements struct{ prepared map[string]*sql.Stmt }

// Prepare prepares the statements in the files sql/*.sql.
func (r *Runner) Prepare(ctx context.Context, files fs.FS) (*Statements, error) {
	s := &Statements{make(map[string]*sql.Stmt)}
	paths, err := fs.Glob(files, "sql/*.sql")
	for _, path := range paths {
		var raw []byte
		if raw, err = fs.ReadFile(files, path); err != nil {
			break
		}
		text, name := r.named(string(raw)), strings.TrimSuffix(strings.TrimPrefix(path, "sql/"), ".sql")
		for suffix, text := range variants(text) {
			var st *sql.Stmt
			if st, err = r.db.PrepareContext(ctx, text); err != nil {
				s.Close()
				return nil, Explain(fmt.Errorf("%s: %w", path, err))
			}
			s.prepared[name+suffix] = st
		}
	}
	return s, err
}

// variants returns the texts of a statement by the suffix of its name.
func variants(text string) map[string]string {
	if strings.Contains(text, "{{in}}") {
		return map[string]string{
			one:  strings.ReplaceAll(text, "{{in}}", "= ?1"),
			many: strings.ReplaceAll(text, "{{in}}", "IN (SELECT value FROM json_each(?1))"),
		}
	}
	head, tail, inserts := strings.Cut(text, "VALUES (")
	if !inserts {
		return map[string]string{"": text}
	}
	row, tail, _ := strings.Cut(tail, ")")
	all := make(map[string]string)
	for _, n := range sizes {
		all[rows(n)] = head + "VALUES " + strings.Repeat("("+row+"), ", n-1) + "(" + row + ")" + tail
	}
	return all
}

// The suffixes of the names of variants.
const (
	one  = " of one"
	many = " of many"
)

func rows(n int) string { return fmt.Sprintf(" x%d", n) }

// Close closes the statements.
func (s *Statements) Close() {
	for _, st := range s.prepared {
		_ = st.Close()
	}
}

// Queries runs statements in one transaction, or each by itself. One goroutine may use it at a
// time.
type Queries struct {
	ctx   context.Context
	tx    *sql.Tx
	s     *Statements
	bound map[string]*sql.Stmt // to tx
}

// On returns the statements in tx, or by themselves if tx is nil.
func (s *Statements) On(ctx context.Context, tx *sql.Tx) *Queries {
	return &Queries{ctx, tx, s, make(map[string]*sql.Stmt)}
}

func (q *Queries) stmt(name string) *sql.Stmt {
	if q.tx == nil {
		return q.s.prepared[name]
	}
	st := q.bound[name]
	if st == nil {
		st = q.tx.StmtContext(q.ctx, q.s.prepared[name])
		q.bound[name] = st
	}
	return st
}

// Each calls fn for each row, until it returns false or an error.
func (q *Queries) Each(name string, args []any, fn func(row *sql.Rows) (more bool, err error)) error {
	found, err := q.stmt(name).QueryContext(q.ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		if more, err := fn(found); err != nil || !more {
			return err
		}
	}
	return found.Err()
}

// EachOf is Each of a statement with {{in}} for the rows of values.
func (q *Queries) EachOf(name string, values []string, fn func(row *sql.Rows) error) error {
	each := func(row *sql.Rows) (bool, error) { return true, fn(row) }
	switch len(values) {
	case 0:
		return nil
	case 1:
		return q.Each(name+one, []any{values[0]}, each)
	}
	list, err := json.Marshal(values)
	if err != nil {
		return err
	}
	return q.Each(name+many, []any{string(list)}, each)
}

// Exec runs a statement, and returns the number of rows that it has changed.
func (q *Queries) Exec(name string, args ...any) (int64, error) {
	res, err := q.stmt(name).ExecContext(q.ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Insert inserts n rows. row appends the values of one to a list.
func (q *Queries) Insert(name string, n int, row func(i int, args []any) []any) error {
	var args []any
	for i, at := 0, 0; i < n; {
		for sizes[at] > n-i {
			at++
		}
		args = args[:0]
		for range sizes[at] {
			args = row(i, args)
			i++
		}
		if _, err := q.stmt(name+rows(sizes[at])).ExecContext(q.ctx, args...); err != nil {
			return err
		}
	}
	return nil
}
