// Package disk models a file system that keeps only the promises that POSIX makes, and builds every
// content that it can have after a power cut.
//
// A sync of a file makes its content and its size durable, and a sync of the directory makes the
// names durable. Everything since then is pending: each sector of 512 bytes of each write, each
// change of a size, and each change of a name lasts or is lost by itself, in any combination. A
// sector lasts wholly or not at all. A rename lasts wholly or not at all.
package disk
