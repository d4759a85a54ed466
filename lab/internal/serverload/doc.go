// Package serverload is the load that harnesses put on the stores on servers, packages postgres,
// redisstore and spend/pgledger, while they attack the server, its connections and its clients.
//
// The load is a list of calls. Each [Call] leaves a mark that shows afterwards how many of its
// steps were applied, and whether one was applied twice. [Run] carries the calls out and keeps a
// [Span] for each: the steps that were acknowledged must be there, those with an unknown outcome
// may be, and no others. [Check] compares.
package serverload
