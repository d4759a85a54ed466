// Package ioerr attacks bolt stores with errors of the disk.
//
// A child runs a history of calls on a store, and one call of the system fails: the n-th write,
// sync, rename, truncate or read, with EIO or ENOSPC, once or from then on. The harness compares
// every answer of the store with the contents that are possible then. A call that succeeded must
// have been applied, a call that failed must not, and a call with an unknown outcome may have been.
// In the end the disk is healed, the file is opened again, and its content must be one of those
// that are still possible.
package ioerr
