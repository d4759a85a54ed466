// Package place reads the names of stores. Package stores documents the names, and opens them.
package place

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/brimgo/brim/redisstore"
)

// ErrName reports a name that is not the name of a store. The error says how to write it and does
// not quote it, since a password may be in it.
var ErrName = errors.New("not the name of a store")

// Kind is a kind of backend.
type Kind uint8

// The kinds of backends. The zero Kind is that of the zero [Place].
const (
	Memory Kind = iota + 1
	File
	PostgreSQL
	Redis
	SQLite
)

// String returns the name of the backend.
func (k Kind) String() string {
	switch k {
	case Memory:
		return "memory"
	case File:
		return "bbolt file"
	case PostgreSQL:
		return "PostgreSQL"
	case Redis:
		return "Redis"
	case SQLite:
		return "SQLite"
	}
	return "no store"
}

// Place is the place that the name of a store gives; see [Parse]. The zero Place is no store. Its
// methods may be called by any number of goroutines at once.
type Place struct {
	kind  Kind
	shown string // the name without credentials
	// target is a pointer so that fmt prints its address and not its content, which has
	// passwords, wherever a Place is a field.
	target *target
}

// target holds the parts of a name that only its kind has.
type target struct {
	given         func() string   // the whole name, which fmt cannot print
	path          string          // of a file, or of a database of SQLite
	pool          *pgxpool.Config // of PostgreSQL
	schema, table string
	client        func(maxConns int) redis.UniversalClient
	options       redisstore.Options
}

// names is the way out in errors.
const names = "give a file, sqlite:PATH, memory:, postgres://..., redis://..., redis+cluster://..., redis+sentinel://... " +
	"or redis+unix://..."

// schemes are the schemes of URLs, each with its reader.
var schemes = map[string]func(*url.URL, *target) error{
	"postgres":        parsePostgres,
	"postgresql":      parsePostgres,
	"redis":           parseRedis,
	"rediss":          parseRedis,
	"redis+unix":      parseUnix,
	"redis+cluster":   parseCluster,
	"rediss+cluster":  parseCluster,
	"redis+sentinel":  parseSentinel,
	"rediss+sentinel": parseSentinel,
}

// Parse reads the name of a store. It opens nothing. Every error is an [ErrName].
//
// For PostgreSQL it reads the environment variables and files that libpq reads, such as PGHOST and
// PGPASSFILE.
func Parse(name string) (Place, error) {
	scheme, rest, hasColon := strings.Cut(name, ":")
	scheme = strings.ToLower(scheme)
	read, isURL := schemes[scheme]
	switch {
	case name == "":
		return Place{}, fmt.Errorf("%w: it is empty; %s", ErrName, names)
	case hasColon && scheme == "memory":
		if rest != "" {
			return Place{}, fmt.Errorf("%w: nothing may follow the colon of memory:, and something does", ErrName)
		}
		return Place{kind: Memory, shown: name, target: &target{given: func() string { return name }}}, nil
	case hasColon && scheme == "file":
		if rest == "" {
			return Place{}, fmt.Errorf("%w: the path after file: is missing", ErrName)
		}
		return Place{kind: File, shown: rest, target: &target{given: func() string { return name }, path: rest}}, nil
	case hasColon && scheme == "sqlite":
		if rest == "" || strings.HasPrefix(rest, "//") || strings.HasPrefix(rest, ":memory:") {
			return Place{}, fmt.Errorf("%w: the path of a database must follow sqlite:, as in sqlite:app.db", ErrName)
		}
		return Place{kind: SQLite, shown: name, target: &target{given: func() string { return name }, path: rest}}, nil
	case hasColon && isURL:
		return parseURL(scheme, name, read)
	case isAddress(name):
		return Place{}, fmt.Errorf("%w: it looks like the address of a server, but its beginning is unknown; %s. "+
			"A file of that name is file:NAME", ErrName, names)
	}
	return Place{kind: File, shown: name, target: &target{given: func() string { return name }, path: name}}, nil
}

var (
	// isPath matches the beginning of a path that nobody takes for an address: with a drive, or a
	// directory.
	isPath = regexp.MustCompile(`^([A-Za-z]:)?([/\\]|\.\.?[/\\])`)
	// likeAddress matches a scheme, a port, and the marks of parameters and of a connection string.
	likeAddress = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:|:[0-9]*(/|$)|[\s=?]`)
)

// isAddress reports whether a name is more likely an address or a connection string than a file.
// Then a file of that name would hold limits that nobody shares, and may show a password.
func isAddress(name string) bool {
	return strings.Contains(name, "://") || strings.Contains(name, "@") || strings.Contains(name, "password=") ||
		strings.HasPrefix(name, "//") || !isPath.MatchString(name) && likeAddress.MatchString(name)
}

// parseURL reads a name with a known scheme.
func parseURL(scheme, name string, read func(*url.URL, *target) error) (Place, error) {
	example := scheme + "://user:password@host:port/database"
	if scheme == "redis+unix" {
		example = scheme + "://user:password@/path/of/socket"
	}
	_, rest, ok := strings.Cut(name, "://")
	if !ok || len(name)-len(rest) != len(scheme)+len("://") {
		return Place{}, fmt.Errorf("%w: two slashes must follow the colon, as in %s", ErrName, example)
	}
	u, err := url.Parse(name)
	if err != nil {
		// The error of url.Parse quotes the name, and with it the password.
		return Place{}, fmt.Errorf("%w: it is no URL like %s; within the password, write %%40 for @, %%2F for /, "+
			"%%3F for ?, %%23 for # and %%25 for %%", ErrName, example)
	}
	// A slash or a question mark in a password ends the host early: the beginning of the password
	// would be taken for the port, and its rest would show in errors.
	if i := strings.IndexAny(rest, "/?#"); i >= 0 && strings.ContainsAny(rest[i:], "@#") {
		return Place{}, fmt.Errorf("%w: it should look like %s; an @ or # behind the host must be written %%40 or "+
			"%%23, and in the password / as %%2F, ? as %%3F", ErrName, example)
	}
	t := &target{given: func() string { return name }}
	if err := read(u, t); err != nil {
		return Place{}, fmt.Errorf("%w: %w", ErrName, err)
	}
	p := Place{kind: Redis, target: t}
	if t.pool != nil {
		p.kind = PostgreSQL
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	p.shown = shown.String()
	return p, nil
}

// Kind returns the kind of the backend.
func (p Place) Kind() Kind { return p.kind }

// String returns the name without user, password and parameters: for a file its path.
func (p Place) String() string { return p.shown }

// GoString returns String, so that the format %#v does not show a password.
func (p Place) GoString() string { return p.shown }

// MarshalText returns String, for logs and reports in JSON.
func (p Place) MarshalText() ([]byte, error) { return []byte(p.shown), nil }

// Name returns the name that Parse was given, with its password.
func (p Place) Name() string {
	if p.target == nil {
		return ""
	}
	return p.target.given()
}

// Path returns the path of the file, or "" if the kind is neither [File] nor [SQLite].
func (p Place) Path() string {
	if p.target == nil {
		return ""
	}
	return p.target.path
}

// Tables returns the schema and the table that a postgres:// name contains. "" stands for the
// default of package postgres.
func (p Place) Tables() (schema, table string) {
	if p.target == nil {
		return "", ""
	}
	return p.target.schema, p.target.table
}

// reason returns the text of an error that a reader of the URL gave, or "" if the text may hold a
// password. It removes the name of the package that made the error.
func reason(err error, u *url.URL) string {
	text := err.Error()
	if i := strings.LastIndex(text, "`: "); i >= 0 { // pgx quotes the URL before the reason
		text = text[i+len("`: "):]
	}
	if strings.ContainsAny(text, "@`") || strings.Contains(text, "://") {
		return ""
	}
	var secrets []string
	if password, ok := u.User.Password(); ok {
		secrets = append(secrets, password)
	}
	for name, values := range u.Query() {
		if strings.Contains(strings.ToLower(name), "pass") {
			secrets = append(secrets, values...)
		}
	}
	for _, s := range secrets {
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s)} {
			if form != "" && strings.Contains(text, form) {
				return ""
			}
		}
	}
	return strings.TrimPrefix(text, "redis: ")
}

// unreadable makes the error of a URL that the client of a backend cannot read.
func unreadable(err error, u *url.URL) error {
	if text := reason(err, u); text != "" {
		return errors.New(text)
	}
	return errors.New("its parameters cannot be read; the reason is withheld, because it may quote a password")
}

// takeOwn removes the parameters that begin with brim_ from a URL, and returns them. Only the known
// ones may occur, each once.
func takeOwn(u *url.URL, known ...string) (map[string]string, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("a parameter after ? cannot be read; write %25 for % and %26 for &, and no ;")
	}
	own := make(map[string]string)
	for name, values := range query {
		if !strings.HasPrefix(name, "brim_") {
			continue
		}
		found := false
		for _, k := range known {
			found = found || k == name
		}
		if !found || len(values) != 1 {
			return nil, fmt.Errorf("the parameters that begin with brim_ are %s, each once", strings.Join(known, ", "))
		}
		own[name] = values[0]
		query.Del(name)
	}
	u.RawQuery = query.Encode()
	return own, nil
}
