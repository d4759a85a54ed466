// Package stores opens a store by its name, for programs that take the store from configuration:
//
//	limits, err := stores.Open(ctx, os.Getenv("LIMITS"), nil)
//	if err != nil {
//		return err
//	}
//	defer limits.Close()
//	limiter := brim.New(limits, nil)
//
// It links every backend, but no driver of SQLite: a program that names sqlite:PATH imports one,
// such as _ "modernc.org/sqlite". A program that always uses the same backend imports that one
// instead.
//
// # Names
//
//	limits.db               a bbolt file; Open creates it if it does not exist
//	file:NAME               a bbolt file of any name; every byte after the first colon counts
//	sqlite:PATH             a SQLite database; Open creates it if it does not exist
//	memory:                 memory; nothing survives the process
//	postgres://...          a PostgreSQL database, as pgx reads it; postgresql:// is the same
//	redis://...             a Redis or Valkey, as [redis.ParseURL] reads it
//	rediss://...            the same over TLS
//	redis+unix:///PATH      the same over the Unix socket at PATH, with ?db=1 for a database
//	redis+cluster://...     a Redis Cluster, as [redis.ParseClusterURL] reads it
//	redis+sentinel://...    a Redis that Sentinels watch, as [redis.ParseFailoverURL] reads it
//
// rediss+cluster:// and rediss+sentinel:// are the last two over TLS.
//
// A name that looks like an address or a connection string is never a file: it would hold limits
// that nobody shares, and may show a password. Such a name has "@", "://", "=", "?", a space, a
// scheme or a port, as "localhost:5432" has, or is a known scheme without its slashes. The error
// says so. A path that begins with a directory, as "/" or "./", may have spaces, "=", "?" and
// colons. A file of any name is file:NAME.
//
// In a cluster, each parameter addr=host:port adds a node to ask for the map of the cluster. With
// Sentinels, host and addr are those of Sentinels, and master_name is required. User and password
// before the host are those of the Sentinels; the parameters username and password are those of the
// Redis behind them.
//
// Parameters that begin with brim_ are for brim. In a postgres:// name, brim_schema and brim_table
// are [postgres.Options.Schema] and Table. In a name of Redis, brim_prefix, brim_replicas,
// brim_synced and brim_allow_eviction are [redisstore.Options.Prefix], Replicas, Synced and
// AllowEviction.
//
// # Passwords
//
// No error and no log entry of this package contains a password, whatever is wrong with the name.
// [Store.Name] is the name without user, password and parameters.
package stores
