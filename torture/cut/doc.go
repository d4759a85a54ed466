// Package cut attacks the stores on servers, PostgreSQL and Redis, with connections that break.
//
// A proxy stands between a store and the server. For every kind of call, it first counts the bytes
// of the exchange, and then breaks the connection after each byte, of the requests and of the
// answers: it closes the connection, resets it, closes one direction, loses all further data, or
// holds the data up. What the call has done must agree with its answer: a call that succeeded was
// applied once, a call of unknown outcome once at most, and any other call was not applied. The
// harness looks when the server has ended the connection, since it may be committing until then.
package cut
