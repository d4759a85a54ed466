// Package lin checks histories of concurrent calls on every backend of brim with porcupine.
//
// A history has 8 clients with 40 calls each, on 4 buckets or accounts. For every call, it has the
// answer and the moments at which the call began and was over. The model is the exact behavior of
// the subject, one call after the other. The history passes if the model gives the same answers in
// some order in which no call comes before a call that was over when it began.
//
// # Faults
//
// PostgreSQL and Redis are reached through a tap, a proxy that cuts connections at random bytes.
// Backends of PostgreSQL are terminated, statements are cancelled, Redis forgets its scripts, and
// contexts of calls end. A bolt file belongs to a child, which is killed by SIGKILL and started
// again.
//
// Servers that nothing else uses meet more: PostgreSQL and its processes are killed, or stopped
// while calls are in flight; a client stops while its transaction holds rows. A Redis that syncs
// always is killed. A replica takes over from a primary that was killed, or stopped and resumed.
// The slots of a cluster move, and its primaries fail over. A kill is no power cut: the system
// still has all writes to a file. So it finds an answer that comes before the write, and an
// error with the wrong meaning, and no missing sync.
//
// A primary that is stopped does not know that its replica has taken over. Until it hears of that,
// it may answer a question or a refusal from fills that are lost; docs/promises.md says so. The
// check believes such an answer only outside the time of the fault. A fill that was acknowledged in
// that time must last.
//
// A history has at most 9 calls of unknown outcome, because the time of a check grows
// exponentially with their number: during each fault, only so many calls are let through. When
// nothing is disturbed any more, every call must get an answer. An error that tells nothing about
// the outcome is a finding.
//
// A server has several histories at a time, each with its own buckets. A history waits for the
// server most of the time. Its connections to PostgreSQL are those that the history before it left
// over.
//
// TestCut has one client, and cuts after each byte of each kind of call. Its histories are judged
// by the same models.
//
// A call of unknown outcome takes effect at any later moment, or never. The last moment is the end
// of the process that carries the call out: of the killed child, or of all PostgreSQL backends
// that were at work for the history. Redis carries a command out before it ends its connection.
// The harness waits for them before it reads every bucket a last time. A call that failed with
// another error must have no effect, so the history does not have it.
//
// Before the last reads, each request of unknown outcome goes to its ledger again. The answer tells
// whether the first call was decided, and the check takes the call as known. If the request was
// canceled meanwhile, or is a cancellation whose place a record may have taken, the answer does not
// tell, and the outcome stays unknown.
//
// # Models
//
//   - Stores answer exactly: the level, the held units, and the time of the decision.
//   - Refusals from memory may overlook room that a call makes until that call has returned. Two
//     processes with remembered refusals make no room: theirs may stay hidden from each other.
//   - Ledgers answer exactly: the decision, every figure of every rule, and the first answer again
//     if a request is sent again. Requests are canceled before they arrive, at the same time, and
//     later; a canceled request gets the answer of its cancellation, or takes money that has moved.
//     If no spend has two accounts, the clock of the history steps back, and accounts are mended.
//     Rules change a few times in a history. Any process sets them, at the same time as others, or
//     as it starts. A decision that begins when new rules are set goes by them, also in a process
//     that starts with older ones, and no account goes back to older ones.
//
// # Time
//
// In memory and in bolt, the clock belongs to the history. It moves by whole units, also
// backwards, and all amounts are whole numbers, so levels are compared exactly. In half of the
// histories some steps are long: minutes, an hour or a year. The clock belongs to half of the
// histories over Redis, and to those of a subject in PostgreSQL, too. In the others, the server
// has its own clock. There, buckets do not leak, or so slowly that no decision depends on it. In a
// third of the histories nothing is disturbed, buckets leak fast, and the At of every answer fixes
// its decision. These levels are compared up to a small rounding. In ledgers over PostgreSQL, no
// hold expires and no window ends, and the ledger's entries tell the time of a call of unknown
// outcome.
//
// # Failures
//
// A failing plan is run again with fewer calls. The shortest history that fails is then cut off
// where it first contradicts the model, and loses the reads and refusals that the contradiction
// does not need. It is printed with the order in which the model can follow it.
//
// # Planted faults
//
// TestCatches, TestCatchesOfCuts and TestLease/catches test subjects with a fault each, and must
// find it: lost updates, answers before the commit, resends, misread clocks, servers that do not
// sync, fail-overs that lose writes, leases that outlive their term, decisions by older rules.
package lin
