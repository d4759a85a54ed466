// Package pgtest gives tests a PostgreSQL.
//
// [Pool], [URL] and [Schema] share one server per test binary, or per run where BRIM_TEST_POSTGRES is set to the URL of a
// superuser, as
//
//	go run ./internal/pgtest/cmd -- go test ./...
//
// does. [NewServer] is a server of one test's own, to be stopped, started and configured. A test that asks for a server gets
// one or fails; none is skipped. What is used, the first that is there: BRIM_TEST_POSTGRES; the programs initdb and postgres,
// on PATH or where distributions put them; Docker; on Debian and its kin, as root, the package postgresql, which is installed
// first.
//
// A server ends with the process that started it, however that ends: a shell holds it, which reads from a pipe, and when the
// pipe's other end is gone it stops the server and removes its data. fsync is on, so that what a test finds durable is.
package pgtest
