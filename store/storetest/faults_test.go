package storetest

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
	shortensBlocks       fault = "shortens blocks"
	ignoresBlocks        fault = "ignores blocks"
	deleteKeepsBlock     fault = "keeps the block on Delete"
	ignoresCeiling       fault = "ignores ceilings"
	storesCeiling        fault = "stores ceilings"
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

// brokenStore is a store with a fault, and the test of the suite that must fail.
type brokenStore struct {
	fault      fault
	part, test string
}

// stuck are the faults that let calls wait for ever. Only the wall time tells them from slow calls, so
// the suite has less patience with them; it waits for all other stores as long as for a correct one.
var stuck = []fault{locksInCallersOrder, locksWithoutPause, cancelLeavesLock, visitHoldsLock, clockStands}

var broken = []brokenStore{
	{fault: decidesFromSnapshot, part: "races", test: "exactly the capacity"},
	{fault: failsOnFirstUse, part: "races", test: "first use"},
	{fault: timeBeforeLock, part: "waiters"},
	{fault: acceptedByLevel, part: "vectors"},
	{fault: fullByNearness, part: "vectors"},
	{fault: updatesEveryRow, part: "vectors"},
	{fault: prunesByLastTouch, part: "prune", test: "expired buckets only"},
	{fault: finiteWaits, part: "vectors"},
	{fault: finiteWaitsInTxns, part: "model"},
	{fault: rewindsTime, part: "vectors"},
	{fault: rewindsMicroseconds, part: "cases", test: "clock behind by microseconds"},
	{fault: waitsWholeWindow, part: "vectors"},
	{fault: leaksWholeUnits, part: "vectors"},
	{fault: refusalsWrite, part: "cases", test: "refusal changes nothing"},
	{fault: refusalsStoreLimit, part: "cases", test: "refusal changes nothing"},
	{fault: undoes, part: "races", test: "nothing shows of a refused transaction"},
	{fault: locksInCallersOrder, part: "races", test: "overlapping keys"},
	{fault: locksWithoutPause, part: "slow clock", test: "overlapping keys"},
	{fault: unlocksBeforeWrite, part: "slow clock", test: "exactly the capacity"},
	{fault: findsThenInserts, part: "slow clock", test: "first use"},
	{fault: cancelLeavesLock, part: "contexts", test: "cancelled in flight"},
	{fault: timeoutNotApplied, part: "contexts", test: "cancelled in flight"},
	{fault: cancelsNeighbours, part: "contexts", test: "cancelled in flight"},
	{fault: badFailsNeighbours, part: "failing requests"},
	{fault: badFailsBatch, part: "cases", test: "more than is held in a transaction"},
	{fault: ignoresMaxSkew, part: "cases", test: "clock behind by more than MaxSkew"},
	{fault: believesNoTime, part: "cases", test: "clock a little behind"},
	{fault: refusalLeavesSkew, part: "cases", test: "a refusal mends a skewed time"},
	{fault: readMendsSkew, part: "cases", test: "a read does not mend a skewed time"},
	{fault: roundsTinyLeaks, part: "cases", test: "tiny leaks add up"},
	{fault: clampsLowered, part: "vectors"},
	{fault: forgetsHolds, part: "vectors"},
	{fault: holdsLeak, part: "vectors"},
	{fault: releasesAnything, part: "cases", test: "more than is held"},
	{fault: captureInTwo, part: "vectors"},
	{fault: losesAtRestart, part: "restart on the real clock"},
	{fault: losesHoldsAtRestart, part: "restart", test: "at once"},
	{fault: losesBlocksAtRestart, part: "restart", test: "at once"},
	{fault: losesTimeAtRestart, part: "restart", test: "after a minute"},
	{fault: foldsPrefix, part: "visit", test: "each bucket once"},
	{fault: modeIgnored, part: "vectors"},
	{fault: unknownModeFits, part: "unsupported"},
	{fault: ignoresContext, part: "contexts", test: "already done"},
	{fault: usableAfterClose, part: "closing"},
	{fault: closesOnce, part: "closing"},
	{fault: shortensBlocks, part: "cases", test: "a block is never shortened"},
	{fault: ignoresBlocks, part: "cases", test: "penalty"},
	{fault: deleteKeepsBlock, part: "cases", test: "Delete lifts a block"},
	{fault: ignoresCeiling, part: "cases", test: "ceiling"},
	{fault: storesCeiling, part: "cases", test: "ceiling"},
	{fault: ceilingStays, part: "cases", test: "a ceiling that sinks, with somebody behind"},
	{fault: retryEarly, part: "waits"},
	{fault: retryLate, part: "waits"},
	{fault: retryIgnoresSkew, part: "cases", test: "clock a little behind"},
	{fault: zeroCreatesRow, part: "vectors"},
	{fault: readCreatesRow, part: "vectors"},
	{fault: drainCreatesRow, part: "vectors"},
	{fault: drainBelowZero, part: "vectors"},
	{fault: alwaysClamps, part: "vectors"},
	{fault: callersRate, part: "vectors"},
	{fault: refusalKeepsRate, part: "cases", test: "refusal at another rate"},
	{fault: refusalPutsRateOff, part: "cases", test: "refusal at another rate"},
	{fault: holdsToTheBit, part: "cases", test: "holds of fractions"},
	{fault: losesAmounts, part: "cases", test: "an amount never goes in for nothing"},
	{fault: askMembersGoIn, part: "model"},
	{fault: drainedLost, part: "model"},
	{fault: zeroLimitIsEmpty, part: "model"},
	{fault: foldsCase, part: "keys"},
	{fault: trimsKeys, part: "keys"},
	{fault: truncatesKeys, part: "keys"},
	{fault: prunesHeld, part: "prune", test: "expired buckets only"},
	{fault: prunesBlocked, part: "prune", test: "expired buckets only"},
	{fault: prunesAtOnce, part: "model"},
	{fault: prunesUnasked, part: "prune", test: "not by itself before its time"},
	{fault: expiresKeys, part: "prune", test: "not by itself before its time"},
	{fault: prunesNoLeak, part: "prune", test: "expired buckets only"},
	{fault: neverPrunes, part: "prune", test: "expired buckets only"},
	{fault: repeatedKeysApart, part: "vectors"},
	{fault: refusedTrialShows, part: "vectors"},
	{fault: waitsForAll, part: "model"},
	{fault: spilledLost, part: "vectors"},
	{fault: fullOnRead, part: "model"},

	{fault: askWrites, part: "cases", test: "a question writes nothing"},
	{fault: askCreatesRow, part: "cases", test: "a question writes nothing"},
	{fault: askMendsSkew, part: "model"},
	{fault: askFromRead, part: "waits"},
	{fault: askIgnoresHeld, part: "model"},
	{fault: askFills, part: "cases", test: "a question writes nothing"},
	{fault: askSeparately, part: "model"},
	{fault: blockStoresLimit, part: "cases", test: "block"},
	{fault: blockStoresLevel, part: "cases", test: "block"},
	{fault: blockShortens, part: "model"},
	{fault: unblockResets, part: "cases", test: "unblock"},
	{fault: unblockKeepsOld, part: "model"},
	{fault: unblockCreatesRow, part: "model"},
	{fault: visitsTwice, part: "visit", test: "each bucket once"},
	{fault: visitLeavesOut, part: "visit", test: "each bucket once"},
	{fault: visitHoldsLock, part: "visit", test: "calls meanwhile"},
	{fault: visitGoesOn, part: "visit", test: "stopping"},
	{fault: visitsAnyPrefix, part: "visit", test: "each bucket once"},

	// The model, the vectors and others find these faults too, without the cases.
	{fault: blockStoresLevel, part: "model of decimals"},
	{fault: leaksAfterAdding, part: "vectors", test: "article plot"},
	{fault: fullByNearness, part: "model"},
	{fault: holdsLeak, part: "model"},
	{fault: retryEarly, part: "model"},
	{fault: losesBlocksAtRestart, part: "model"},
	{fault: repeatedKeysApart, part: "model"},
	{fault: ceilingStays, part: "model"},
	{fault: callersRate, part: "model of decimals"},
	{fault: refusalKeepsRate, part: "model"},
	{fault: refusalKeepsRate, part: "vectors"},
	{fault: forgetsHolds, part: "model of decimals"},
	{fault: losesAtRestart, part: "closing in flight"},
	{fault: decidesFromSnapshot, part: "races through two handles", test: "exactly the capacity"},
	{fault: clockStands, part: "real clock"},
}
