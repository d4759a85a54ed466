// Package sfvtest tests the header fields of package httplimit with a foreign parser of
// structured fields (RFC 9651), as a client gets them from a real server.
package sfvtest
