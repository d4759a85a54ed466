package spendload

import "github.com/brimgo/brim/spend/ledger"

// Revised returns a job that appends rules to those of a budget. Their digest is their text.
func Revised(budget, text string) *ledger.Job {
	return &ledger.Job{Rules: []ledger.Known{{Budget: budget}}, Run: func(snap ledger.Snapshot) (*ledger.Changes, error) {
		newest, err := snap.Rules(budget)
		return &ledger.Changes{Rules: []ledger.Rules{{
			Budget: budget, Seq: newest.Seq + 1, At: snap.Now(), Digest: []byte(text), Text: []byte(text),
		}}}, err
	}}
}
