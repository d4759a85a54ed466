// Package grpclimit limits the calls of a gRPC server, and the calls of a gRPC client.
//
//	limit, err := grpclimit.NewServer(lim, grpclimit.PerClient("api", brim.Over(100, time.Minute)), nil)
//	...
//	srv := grpc.NewServer(grpc.UnaryInterceptor(limit.Unary), grpc.StreamInterceptor(limit.Stream))
//
// A [Policy] is a name, a key and a limit. [PerClient] has one for each client's address, and a
// function of the call selects others: per account, per plan, per method, and several at once. A
// call that fits under all its policies reaches the handler. A call that does not fit fails with
// RESOURCE_EXHAUSTED and a google.rpc.RetryInfo, which tells when to come back, and counts under
// none of them. If no wait helps, there is no RetryInfo. A stream is one call, however many
// messages it has.
//
// [Client] is the client's side: it waits for a turn in a bucket before it makes a call, and obeys
// the RetryInfo of a server.
//
// Package httplimit does the same for HTTP. A client that comes by both has one bucket, if the
// Limiter and the name of the policy are the same.
//
// The package is a module of its own, so that gRPC is not a dependency of brim.
package grpclimit
