// Package grpclimit limits the calls of a gRPC server, and the calls of a gRPC client.
//
//	limit, err := grpclimit.NewServer(lim, brim.Over(100, time.Minute), grpclimit.FailClosed, nil)
//	...
//	srv := grpc.NewServer(grpc.UnaryInterceptor(limit.Unary), grpc.StreamInterceptor(limit.Stream))
//
// Each client has a bucket, by default one per address. A call that fits reaches the handler. A
// call that does not fit fails with RESOURCE_EXHAUSTED and a google.rpc.RetryInfo, which tells when
// to come back. If no wait helps, there is no RetryInfo. A stream is one call, however many
// messages it has.
//
// [Client] is the client's side: it waits for a turn in a bucket before it makes a call, and obeys
// the RetryInfo of a server.
//
// Package httplimit does the same for HTTP. A client that comes by both has one bucket, if the
// Limiter is the same.
//
// The package is a module of its own, so that gRPC is not a dependency of brim.
package grpclimit
