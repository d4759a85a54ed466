// Package kill attacks bolt stores and ledgers with SIGKILL.
//
// A child runs a history of calls, and is killed before, within or after one of the calls by which
// it changes its files. The files stay as the system has them. The next child goes on with them,
// and may be killed while it opens them. The content must be one that the answers so far allow, and
// no temporary file may stay when the file has been opened.
package kill
