package storetest

import "strings"

// fault is the defect of a broken store.
type fault string

const none fault = "none"

// Each fault describes the broken store: "a store that ...".
const (
	decidesFromSnapshot  fault = "decides from a snapshot"
	failsOnFirstUse      fault = "fails on the first use of a key by two"
	leaksAfterAdding     fault = "leaks after adding"
	timeBeforeLock       fault = "takes the time before the lock"
	acceptedByLevel      fault = "infers acceptance from the level"
	fullByNearness       fault = "infers fullness from nearness"
	updatesEveryRow      fault = "updates every row"
	prunesByLastTouch    fault = "prunes by last touch"
	finiteWaits          fault = "gives a finite wait for an amount above the capacity"
	finiteWaitsInTxns    fault = "gives a finite wait for amounts of one key that exceed the capacity"
	rewindsTime          fault = "rewinds time"
	rewindsMicroseconds  fault = "rewinds time by less than a millisecond"
	waitsWholeWindow     fault = "gives a wait for a whole window"
	leaksWholeUnits      fault = "leaks whole units"
	refusalsWrite        fault = "writes refusals"
	refusalsStoreLimit   fault = "stores the limit of a refusal"
	undoes               fault = "undoes instead of deciding at once"
	locksInCallersOrder  fault = "locks in the caller's order"
	locksWithoutPause    fault = "locks in the caller's order without a pause"
	unlocksBeforeWrite   fault = "unlocks between the decision and the write"
	findsThenInserts     fault = "finds no record and then inserts one"
	cancelLeavesLock     fault = "leaves a lock behind when cancelled"
	timeoutNotApplied    fault = "reports a timeout as not applied"
	cancelsNeighbours    fault = "cancels the neighbours of a cancelled call"
	badFailsNeighbours   fault = "fails the neighbours of a failing request"
	badFailsBatch        fault = "fails the batch of a failing transaction"
	ignoresMaxSkew       fault = "believes any time"
	believesNoTime       fault = "believes no time that is ahead"
	refusalLeavesSkew    fault = "does not mend a skewed time on refusal"
	readMendsSkew        fault = "mends a skewed time on read"
	roundsTinyLeaks      fault = "rounds tiny leaks away"
	clampsLowered        fault = "clamps the level to a lowered capacity"
	forgetsHolds         fault = "forgets holds"
	holdsLeak            fault = "lets holds leak"
	releasesAnything     fault = "releases units that are not held"
	captureInTwo         fault = "writes a capture only where the sum changes"
	losesAtRestart       fault = "loses records at restart"
	losesHoldsAtRestart  fault = "loses holds at restart"
	losesBlocksAtRestart fault = "loses blocks at restart"
	losesTimeAtRestart   fault = "takes the time of the restart for the time of the last write"
	foldsPrefix          fault = "matches prefixes without case"
	modeIgnored          fault = "ignores the mode"
	unknownModeFits      fault = "takes an unknown mode for IfFits"
	ignoresContext       fault = "ignores the context"
	usableAfterClose     fault = "works after Close"
	closesOnce           fault = "fails the second Close"
	prolongsPenalties    fault = "prolongs a penalty"
	settlesBlocked       fault = "ends the time at the old rate of a blocked bucket"
	ignoresBlocks        fault = "ignores blocks"
	deleteKeepsBlock     fault = "keeps the block on Delete"
	ignoresCeiling       fault = "ignores ceilings"
	storesCeiling        fault = "stores ceilings"
	ceilingLowers        fault = "lets no ceiling exceed the capacity"
	ceilingStays         fault = "lets no ceiling sink"
	retryEarly           fault = "gives a wait that is a microsecond too short"
	retryLate            fault = "gives a wait that is a millisecond too long"
	retryIgnoresSkew     fault = "gives a wait without the way back to the stored time"
	zeroCreatesRow       fault = "creates a row for an amount of 0"
	readCreatesRow       fault = "creates a row on read"
	drainCreatesRow      fault = "creates a row for the drain of an empty bucket"
	drainBelowZero       fault = "drains below zero"
	alwaysClamps         fault = "clamps operations of mode Always"
	callersRate          fault = "leaks past time at the rate of the call"
	refusalKeepsRate     fault = "keeps the old rate at a refusal"
	refusalPutsRateOff   fault = "ends the time at the old rate at a refusal for ever"
	holdsToTheBit        fault = "ends holds of fractions without regard to rounding"
	losesAmounts         fault = "loses an amount in the rounding of the level"
	askMembersGoIn       fault = "puts in the amounts that a transaction only asks about"
	drainedLost          fault = "does not report drained units"
	zeroLimitIsEmpty     fault = "reads a zero limit as no limit"
	foldsCase            fault = "folds the case of keys"
	trimsKeys            fault = "trims keys"
	truncatesKeys        fault = "truncates keys"
	prunesHeld           fault = "prunes held units"
	prunesBlocked        fault = "prunes blocked buckets"
	prunesAtOnce         fault = "prunes without waiting for MaxSkew"
	prunesUnasked        fault = "prunes by itself without waiting for MaxSkew"
	expiresKeys          fault = "lets a key expire without waiting for MaxSkew"
	prunesNoLeak         fault = "prunes buckets that do not leak"
	neverPrunes          fault = "never prunes"
	repeatedKeysApart    fault = "decides repeated keys apart"
	refusedTrialShows    fault = "reports parts of a refused transaction as accepted"
	waitsForAll          fault = "gives every bucket of a refused transaction a wait"
	spilledLost          fault = "does not report spilled units"
	fullOnRead           fault = "reports Full of a read"
	clockStands          fault = "has a clock that stands"
	askWrites            fault = "puts in the amount of a question"
	askCreatesRow        fault = "creates a row for a question"
	askMendsSkew         fault = "mends a skewed time on a question"
	askFromRead          fault = "computes the wait of a question from the level now"
	askIgnoresHeld       fault = "answers questions without the held units"
	askAtCallersRate     fault = "computes the wait of a question by the rate of the call"
	showsCallersRate     fault = "shows the rate of the call where another one holds"
	askFills             fault = "reports the level after the amount of a question"
	askSeparately        fault = "answers each question of a transaction by itself"
	blockStoresLimit     fault = "stores the limit of a block"
	blockStoresLevel     fault = "stores the level at a block"
	blockShortens        fault = "shortens a block by a block"
	unblockResets        fault = "removes the bucket to end its block"
	unblockKeepsOld      fault = "leaves the end of a block that is over"
	unblockCreatesRow    fault = "creates a row to end no block"
	visitsTwice          fault = "visits a bucket twice"
	visitLeavesOut       fault = "leaves out a bucket of many in a visit"
	visitHoldsLock       fault = "holds its lock during a visit"
	visitGoesOn          fault = "goes on with a visit that was stopped"
	visitsAnyPrefix      fault = "visits every bucket"
)

// brokenStore is a fault, and the test of the suite that must fail: a part, or a test in it.
type brokenStore struct {
	fault fault
	test  string
}

// part returns the part of the suite that contains the test.
func (b brokenStore) part() string {
	part, _, _ := strings.Cut(b.test, "/")
	return part
}

// name identifies an entry of the table.
func (b brokenStore) name() string { return string(b.fault) + ", by " + b.part() }

// hangs are the faults that let calls wait for ever. Only the wall time tells them from slow calls,
// so the suite has less patience with them; it waits for all other stores as long as for a correct
// one.
var hangs = []fault{locksInCallersOrder, locksWithoutPause, cancelLeavesLock, visitHoldsLock, clockStands}

var broken = []brokenStore{
	{decidesFromSnapshot, "races/exactly the capacity"},
	{failsOnFirstUse, "races/first use"},
	{timeBeforeLock, "waiters"},
	{acceptedByLevel, "vectors"},
	{fullByNearness, "vectors"},
	{updatesEveryRow, "vectors"},
	{prunesByLastTouch, "prune/expired buckets only"},
	{finiteWaits, "vectors"},
	{finiteWaitsInTxns, "model"},
	{rewindsTime, "vectors"},
	{rewindsMicroseconds, "cases/clock behind by microseconds"},
	{waitsWholeWindow, "vectors"},
	{leaksWholeUnits, "vectors"},
	{refusalsWrite, "cases/refusal changes nothing"},
	{refusalsStoreLimit, "cases/refusal changes nothing"},
	{undoes, "races/nothing shows of a refused transaction"},
	{locksInCallersOrder, "races/overlapping keys"},
	{locksWithoutPause, "slow clock/overlapping keys"},
	{unlocksBeforeWrite, "slow clock/exactly the capacity"},
	{findsThenInserts, "slow clock/first use"},
	{cancelLeavesLock, "contexts/cancelled in flight"},
	{timeoutNotApplied, "contexts/cancelled in flight"},
	{cancelsNeighbours, "contexts/cancelled in flight"},
	{badFailsNeighbours, "failing requests"},
	{badFailsBatch, "cases/more than is held in a transaction"},
	{ignoresMaxSkew, "cases/clock behind by more than MaxSkew"},
	{believesNoTime, "cases/clock a little behind"},
	{refusalLeavesSkew, "cases/a refusal mends a skewed time"},
	{readMendsSkew, "cases/a read does not mend a skewed time"},
	{roundsTinyLeaks, "cases/tiny leaks add up"},
	{clampsLowered, "vectors"},
	{forgetsHolds, "vectors"},
	{holdsLeak, "vectors"},
	{releasesAnything, "cases/more than is held"},
	{captureInTwo, "vectors"},
	{losesAtRestart, "restart on the real clock"},
	{losesHoldsAtRestart, "restart/at once"},
	{losesBlocksAtRestart, "restart/at once"},
	{losesTimeAtRestart, "restart/after a minute"},
	{foldsPrefix, "visit/each bucket once"},
	{modeIgnored, "vectors"},
	{unknownModeFits, "unsupported"},
	{ignoresContext, "contexts/already done"},
	{usableAfterClose, "closing"},
	{closesOnce, "closing"},
	{prolongsPenalties, "cases/a penalty is not prolonged"},
	{prolongsPenalties, "model"},
	{settlesBlocked, "cases/a refusal under a block writes nothing"},
	{settlesBlocked, "model"},
	{ignoresBlocks, "cases/penalty"},
	{deleteKeepsBlock, "cases/Delete lifts a block"},
	{ignoresCeiling, "cases/ceiling"},
	{storesCeiling, "cases/ceiling"},
	{ceilingLowers, "cases/a ceiling above the capacity"},
	{ceilingLowers, "model"},
	{ceilingStays, "cases/a ceiling that sinks, with somebody behind"},
	{retryEarly, "waits"},
	{retryLate, "waits"},
	{retryIgnoresSkew, "cases/clock a little behind"},
	{zeroCreatesRow, "vectors"},
	{readCreatesRow, "vectors"},
	{drainCreatesRow, "vectors"},
	{drainBelowZero, "vectors"},
	{alwaysClamps, "vectors"},
	{callersRate, "vectors"},
	{refusalKeepsRate, "cases/refusal at another rate"},
	{refusalPutsRateOff, "cases/refusal at another rate"},
	{holdsToTheBit, "cases/holds of fractions"},
	{losesAmounts, "cases/an amount never goes in for nothing"},
	{askMembersGoIn, "model"},
	{drainedLost, "model"},
	{zeroLimitIsEmpty, "model"},
	{foldsCase, "keys"},
	{trimsKeys, "keys"},
	{truncatesKeys, "keys"},
	{prunesHeld, "prune/expired buckets only"},
	{prunesBlocked, "prune/expired buckets only"},
	{prunesAtOnce, "model"},
	{prunesUnasked, "prune/not by itself before its time"},
	{expiresKeys, "prune/not by itself before its time"},
	{prunesNoLeak, "prune/expired buckets only"},
	{neverPrunes, "prune/expired buckets only"},
	{repeatedKeysApart, "vectors"},
	{refusedTrialShows, "vectors"},
	{waitsForAll, "model"},
	{spilledLost, "vectors"},
	{fullOnRead, "model"},

	{askWrites, "cases/a question writes nothing"},
	{askCreatesRow, "cases/a question writes nothing"},
	{askMendsSkew, "model"},
	{askFromRead, "waits"},
	{askIgnoresHeld, "model"},
	{askAtCallersRate, "cases/a question under another rate"},
	{askAtCallersRate, "model"},
	{showsCallersRate, "cases/a question under another rate"},
	{showsCallersRate, "model"},
	{showsCallersRate, "vectors"},
	{askFills, "cases/a question writes nothing"},
	{askSeparately, "model"},
	{blockStoresLimit, "cases/block"},
	{blockStoresLevel, "cases/block"},
	{blockShortens, "model"},
	{unblockResets, "cases/unblock"},
	{unblockKeepsOld, "model"},
	{unblockCreatesRow, "model"},
	{visitsTwice, "visit/each bucket once"},
	{visitLeavesOut, "visit/each bucket once"},
	{visitHoldsLock, "visit/calls meanwhile"},
	{visitGoesOn, "visit/stopping"},
	{visitsAnyPrefix, "visit/each bucket once"},

	// The model, the vectors and others find these faults too, without the cases.
	{blockStoresLevel, "model of decimals"},
	{leaksAfterAdding, "vectors/article plot"},
	{fullByNearness, "model"},
	{holdsLeak, "model"},
	{retryEarly, "model"},
	{losesBlocksAtRestart, "model"},
	{repeatedKeysApart, "model"},
	{ceilingStays, "model"},
	{callersRate, "model of decimals"},
	{refusalKeepsRate, "model"},
	{refusalKeepsRate, "vectors"},
	{forgetsHolds, "model of decimals"},
	{losesAtRestart, "closing in flight"},
	{decidesFromSnapshot, "races through two handles/exactly the capacity"},
	{clockStands, "real clock"},
}
