// Package ui shows the buckets of a store on a page for operators: how full they are, which ones
// refuse, and one bucket's level over the last minutes. Operators with the right to act reset,
// block and drain buckets there.
//
// A [Handler] is mounted in the program that has the store open:
//
//	rec, err := ui.NewRecorder(nil)
//	...
//	s, err := rec.Wrap(db) // counts the refusals that the page shows
//	...
//	page, err := ui.New(s, allow, &ui.Options{Recorder: rec})
//	...
//	defer page.Close()
//	mux.Handle("/limits/", http.StripPrefix("/limits", page))
//
// The function allow decides who may look and who may act. There is no default for it.
//
// The page costs the store one listing at a time, however many people look. After a listing that
// took one second, the page rests for 20 seconds, and in proportion after a shorter or longer
// listing. So the numbers have an age, which the page tells.
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
