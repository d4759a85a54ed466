// Package power attacks bolt stores with power cuts.
//
// A child runs a history of calls on a store, and [iotrace] records all that it does to its files
// and when each call is acknowledged. At every moment of the recording, the power may go. The
// harness builds files that a disk can hold after that, opens them, and compares their content with
// the history: it must be the content after some call, none of those that were acknowledged may be
// missing, and none may be there that had not begun. For a relaxed store, the calls before its last
// Sync count as acknowledged.
package power
