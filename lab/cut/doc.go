// Package cut attacks the stores on servers, PostgreSQL and Redis, with connections that break.
//
// A proxy stands between a store and the server. For every kind of call, it first counts the bytes
// of the exchange. Then the harness makes the call again and again, and the proxy breaks the
// connection of each call after another byte, of the requests and of the answers. It closes the
// connection, resets it or closes one direction; the three take turns from byte to byte. Some
// calls more lose all data after a random byte, or get it late. With settings of the connection
// that differ only in the messages of the driver, the bytes are a sample.
//
// The answer must agree with the effect of the call: a call that succeeded was applied once, a call
// of unknown outcome once at most, and any other call was not applied. The harness looks when the
// server has ended the connection, since it may be committing until then.
package cut
