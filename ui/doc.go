// Package ui shows operators who is limited now, since when and how much, and whether the limiter
// works: the keys that are refused most, failed calls, blocked buckets, and the levels of all
// buckets. Operators with the right to act reset, block and drain buckets there.
//
// A [Handler] is mounted in the program that has the store open:
//
//	rec, err := ui.NewRecorder(nil)
//	...
//	s, err := rec.Wrap(db) // sees the refusals and failures that the page shows
//	...
//	page, err := ui.New(s, allow, &ui.Options{Recorder: rec})
//	...
//	defer page.Close()
//	mux.Handle("/limits/", http.StripPrefix("/limits", page))
//
// The function allow decides who may look and who may act. There is no default for it.
//
// The first page comes from the [Recorder], from [Options.Check] and from the last listing, and
// waits for none of them. The levels of all buckets need a listing, which all viewers share. After
// a listing that took one second, the page rests for 20 seconds, and in proportion after a shorter
// or longer listing. So the levels have an age, which the page tells.
//
// # Safety
//
// The pages work without script. They load nothing from elsewhere, set no cookie, and forbid inline
// scripts and styles. A change needs [Act], a request that does not come from another origin, and a
// token of a page that is at most ten minutes old. The page asks the operator twice before each
// change. The log gets each change with its reason and the name of the operator. Keys are escaped.
// If they are personal data, set [Options.Key].
//
// The commands list, state, doctor, reset, block and unblock of the command line take the address
// of a mounted page as their store.
package ui
