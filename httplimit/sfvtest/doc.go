// Package sfvtest reads the header fields of package httplimit, as a client gets them from a real server, with a parser of
// structured fields (RFC 9651) that is not brim's. It is a module of its own, so that the parser is no dependency of brim.
package sfvtest
