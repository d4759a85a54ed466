// Package boltfile owns a bbolt database for the packages of this repository that keep data in
// it.
//
// [Open] creates, locks and checks a file of its own. [Join] takes a database that an application
// has open. Either way the result is a [File]: [File.View] reads the newest commit, [File.Update]
// commits durably, and [File.Within] works in a transaction of the application. Packages bolt and
// spend/boltledger keep different buckets in one File. The package that opens the File describes
// its buckets by a [Layout]; other packages create theirs in an Update.
//
// bbolt believes every page that it reads: a wrong page number or size makes it go back a commit,
// miss buckets, panic, or read memory that is not mapped. So Open and [File.Verify] walk all
// pages of a file before bbolt uses them, and every call into bbolt turns a panic or a fault into
// [store.ErrCorrupt].
//
// If the disk fails during a commit, nobody can know the content of the file. The File then
// refuses all work until it is opened again. Open syncs the file and its directory first, so
// that no answer counts on a commit or a name that a power failure can still take back. After a
// failed sync, a second one proves nothing; so Open writes the page again that makes the last
// commit count.
package boltfile
