// Package pgtest gives tests a PostgreSQL.
//
// [Pool], [URL] and [Schema] share one server per test binary. If BRIM_TEST_POSTGRES holds the URL
// of a superuser, all test binaries share the server at that URL. The command
//
//	go run ./internal/pgtest/cmd -- go test ./...
//
// starts a server and sets the variable. [NewServer] starts a server for one test alone, which may
// stop, start and configure it.
//
// A test that asks for a server gets one or fails. Only -short skips it, if a server would have to
// be started. pgtest takes the first of:
//
//   - the server at BRIM_TEST_POSTGRES;
//   - the programs initdb and postgres, on PATH or where distributions put them;
//   - Docker;
//   - on Debian and its kin, as root, the package postgresql, which pgtest installs.
//
// A server ends with the process that started it, even if that process is killed. A shell holds the
// server and reads from a pipe. When the other end of the pipe closes, the shell stops the server
// and removes its data. fsync is on, so that data that a test finds durable is durable.
package pgtest
