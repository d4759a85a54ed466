// Package weave builds programs whose subjects run under package turn. It changes copies of the
// subjects' files and hands them to "go build -overlay", so the code that is shipped has no points.
//
// [Source] replaces the operations of a file on channels, mutexes and atomic variables by calls of
// package turn. The lines of the file keep their numbers.
package weave
