// Package redis attacks the stores in Redis with failures of its servers.
//
// Many callers use a store while an attack comes: SIGKILL of a server whose append-only file is
// synced always; SIGKILL of a primary, or SIGSTOP and SIGCONT, while its replica takes over; in a
// cluster, a hash slot that moves key by key, a fail-over that was asked for, or one after a kill.
// Callers send again what was not applied, as programs do, until it succeeds. Then every call is
// compared with its answers: an acknowledged one must be there once, also at the server that has
// taken over, and none may be there that was not applied.
//
// A kill is no power cut: the system still has what the server wrote to a file, whether it was
// synced or not. So the attack finds an answer that comes before the server has written, and a
// wrong idea of what an error means. It cannot find a missing sync: there, a store trusts Redis and
// its setting appendfsync.
//
// Fail-overs need Options.Replicas. Without it, the harness loses acknowledged calls, which is one
// of the defects that it has to find.
package redis
