// Package observability is the code of the guide beside it, so that what the guide shows compiles and is tested. It is a
// module of its own: the metric and tracing libraries are in no user's module graph.
package observability
