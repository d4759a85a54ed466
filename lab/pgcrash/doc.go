// Package pgcrash attacks the stores in PostgreSQL with crashes of the server.
//
// Many callers use a store while a crash comes: SIGKILL of the whole server, of one connection's
// process or of a process of the server's own, or an immediate stop. The server recovers, the same
// store goes on, and every call is compared with its answer.
//
// A crash of the server is not a power cut. The memory that the server's processes share is gone,
// and so is everything that was not written to a file. The system still has what was written,
// whether it was synced or not. So this attack finds an answer that comes before the server has
// written the commit, and a wrong idea of what an error means. It cannot find a missing sync:
// there, a store trusts PostgreSQL and the setting synchronous_commit.
package pgcrash
