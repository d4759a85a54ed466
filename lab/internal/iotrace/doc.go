// Package iotrace runs a child process under ptrace, and records every call of the system by which
// the child changes one directory: writes, changes of size, syncs, and changes of names. It can
// also make such a call fail.
//
// The recorder sees the calls of the system themselves. The traced program needs no hooks, and
// nothing that the program does to its files goes unseen: a call that the recorder cannot describe
// ends the recording with an error. Shared mappings for reading are allowed, because they change
// nothing.
//
// The package works on linux/amd64.
package iotrace
