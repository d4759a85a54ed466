package spendtest

// fault is the defect of a broken ledger.
type fault string

// Each fault describes the broken ledger: "a ledger that ...".
const (
	none                  fault = "none"
	losesEntry            fault = "loses the last entry of a decision"
	losesDeclines         fault = "keeps no entry of a decline"
	forgetsDeclines       fault = "forgets the answer to a declined request"
	repeatsEntries        fault = "appends the entries once more when a request is sent again"
	losesSecondAccount    fault = "changes only the first account of a decision"
	keepsFirstState       fault = "does not update an account at a capture"
	keepsFirstSpend       fault = "lets a hold be captured above its amount"
	forgetsRefunds        fault = "lets a spend be refunded twice"
	keepsEndedHolds       fault = "keeps a hold after its release"
	losesHolds            fault = "lets no hold expire"
	neverDrops            fault = "keeps entries that were dropped"
	dropsTooMuch          fault = "drops entries that still count"
	timesFrom1970         fault = "keeps entries of times before 1970 as of 1970"
	losesTags             fault = "keeps entries without tags"
	losesExpiries         fault = "keeps entries without the fate of held money at its expiry"
	losesSpendAmounts     fault = "keeps entries without the amount with which their spend began"
	losesTerms            fault = "keeps entries without what their request asked for"
	losesCredits          fault = "keeps credits without the parts that rules counted"
	datesByDecision       fault = "dates corrections at their decision"
	keepsFirstRules       fault = "keeps the rules of an account as they were first"
	truncatesStates       fault = "truncates the figures of an account"
	decidesBeforeLock     fault = "reads the account before it locks"
	readsIDsBeforeLock    fault = "looks an ID up before it locks"
	readsSpendBeforeLock  fault = "reads a hold before it locks"
	foldsIDs              fault = "folds the case of IDs"
	truncatesIDs          fault = "truncates IDs"
	foldsAccounts         fault = "folds the case of accounts"
	trimsAccounts         fault = "trims accounts"
	answersLast           fault = "remembers one answer for each account"
	wallClock             fault = "counts windows by another clock"
	coarseClock           fault = "counts windows by a clock of milliseconds"
	locksNoSpend          fault = "does not lock the accounts of a spend"
	entriesByDecision     fault = "lists entries by the time of the decision"
	splitsDates           fault = "takes a page that ends within a date for the end of the date"
	skipsDates            fault = "goes on behind a date within which a page has ended"
	repeatsDates          fault = "repeats an entry where a page goes on within a date"
	entriesFromEdge       fault = "lists the entries of the edge of a window twice"
	seesTooFar            fault = "says that no entry follows the entries of a range"
	entriesBelowUpto      fault = "leaves out the entries of the last date of a range"
	sinceRepeats          fault = "lists the entry at a position as if it came after it"
	hidesDamage           fault = "hides damaged entries"
	holdsLate             fault = "lets a hold expire too late"
	holdsNoNext           fault = "forgets when the next hold expires"
	historyOldestFirst    fault = "lists the history oldest first"
	historyShortPages     fault = "lists the history in short pages"
	historyRepeats        fault = "repeats an entry on the next page of the history"
	accountsOnePage       fault = "lists one page of accounts"
	accountsDueLate       fault = "lists due accounts too late"
	losesDue              fault = "keeps accounts without the time at which they are due"
	accountsOfAll         fault = "lists the accounts of all budgets"
	keepsCanceled         fault = "keeps a request that was canceled"
	losesMoves            fault = "keeps the key of an account that has moved"
	losesFormerKeys       fault = "forgets the key that an account had"
	keepsCanceledTime     fault = "keeps the time of a request that was canceled"
	neverPrunesIDs        fault = "never prunes IDs"
	prunesIDsEarly        fault = "prunes IDs too early"
	prunesAllBudgets      fault = "prunes the IDs of all budgets"
	prunesOpenHolds       fault = "prunes the IDs of open holds"
	losesAnswersAtRestart fault = "forgets answers at a restart"
	losesEntriesAtRestart fault = "forgets entries at a restart"
	losesHoldsAtRestart   fault = "forgets holds at a restart"
	keepsLostEntries      fault = "keeps the entries of a lost transaction"
	keepsLostAnswers      fault = "keeps the answers of a lost transaction"
	togetherOnOldState    fault = "decides all jobs of one call on the state before the first"
	togetherFails         fault = "fails all jobs of one call if one of them fails"
	togetherReversed      fault = "decides the last job of one call first"
	losesRules            fault = "keeps no rules of a budget"
	losesTexts            fault = "returns rules without their text to jobs that do not know it"
	losesHeldRules        fault = "forgets that rules are held"
	revisionsOldestFirst  fault = "lists revisions oldest first"
	revisionsRepeat       fault = "repeats a revision on the next page"
	keepsLostRules        fault = "keeps the rules of a lost transaction"
	ignoresContext        fault = "ignores the context"
	usableAfterClose      fault = "works after Close"
)

// random is the test of [Random] in the table.
const random = "random"

// brokenCase is a fault, and the test of the suite that must fail.
type brokenCase struct {
	fault fault
	test  string
}

// name identifies an entry of the table.
func (b brokenCase) name() string { return string(b.fault) + ", by " + b.test }

var broken = []brokenCase{
	{losesEntry, "racing charges"},
	{losesDeclines, "history explains"},
	{forgetsDeclines, random},
	{repeatsEntries, random},
	{losesSecondAccount, "either all accounts are charged or none"},
	{keepsFirstState, random},
	{keepsFirstSpend, random},
	{forgetsRefunds, random},
	{keepsEndedHolds, random},
	{losesHolds, "a hold expires without a background job"},
	{neverDrops, random},
	{dropsTooMuch, random},
	{neverDrops, "prune beside an idle account"},
	{dropsTooMuch, "prune beside an idle account"},
	{timesFrom1970, "a clock before 1970"},
	{losesTags, "history explains"},
	{losesExpiries, random},
	{losesSpendAmounts, random},
	{losesTerms, "history tells what was asked"},
	{losesCredits, random},
	{datesByDecision, random},
	{keepsFirstRules, "a share of a limit is told when it is crossed"},
	{truncatesStates, "many rules"},
	{decidesBeforeLock, "racing charges"},
	{readsIDsBeforeLock, "one ID from many callers"},
	{readsSpendBeforeLock, "racing captures"},
	{foldsIDs, "IDs are compared byte by byte"},
	{truncatesIDs, "IDs are compared byte by byte"},
	{foldsAccounts, "accounts are compared byte by byte"},
	{trimsAccounts, "accounts are compared byte by byte"},
	{answersLast, random},
	{wallClock, "a window ends to the microsecond"},
	{coarseClock, "a window ends to the microsecond"},
	{locksNoSpend, random},
	{entriesByDecision, random},
	{splitsDates, "many entries of one date"},
	{skipsDates, "many entries of one date"},
	{repeatsDates, "many entries of one date"},
	{entriesFromEdge, "many entries of one date"},
	{seesTooFar, "many entries of one date"},
	{entriesBelowUpto, "a window ends to the microsecond"},
	{sinceRepeats, random},
	{hidesDamage, random},
	{holdsLate, "a hold expires without a background job"},
	{holdsNoNext, "many holds expire"},
	{historyOldestFirst, "history explains"},
	{historyShortPages, "long histories are paged"},
	{historyRepeats, "history explains"},
	{accountsOnePage, "pruning covers all accounts of one budget"},
	{accountsDueLate, "many holds expire"},
	{losesDue, random},
	{accountsOfAll, "an export has every entry once"},
	{keepsCanceled, "cancel"},
	{keepsCanceled, random},
	{losesMoves, "a moved account"},
	{losesFormerKeys, "a moved account"},
	{losesMoves, random},
	{losesFormerKeys, random},
	{keepsCanceledTime, "a canceled ID is kept from its cancellation on"},
	{neverPrunesIDs, random},
	{prunesIDsEarly, random},
	{prunesAllBudgets, "pruning covers all accounts of one budget"},
	{prunesOpenHolds, random},
	{losesAnswersAtRestart, "a restart loses nothing"},
	{losesEntriesAtRestart, "a restart loses nothing"},
	{losesHoldsAtRestart, "a restart loses nothing"},
	{keepsLostEntries, random},
	{keepsLostAnswers, random},
	{togetherOnOldState, "requests that are sent together"},
	{togetherFails, "requests that are sent together"},
	{togetherReversed, "requests that are sent together"},
	{losesRules, "rules come in revisions"},
	{losesTexts, "rules come in revisions"},
	{losesTexts, "rules of jobs that are sent together"},
	{losesHeldRules, "rules come in revisions"},
	{revisionsOldestFirst, "rules come in revisions"},
	{revisionsRepeat, "rules come in revisions"},
	{keepsLostRules, "rules that are not stored"},
	{decidesBeforeLock, "several set rules at once"},
	{ignoresContext, "closed"},
	{usableAfterClose, "closed"},

	// The model finds these faults too, without the cases.
	{losesHolds, random},
	{togetherReversed, random},
}
