// Package observability holds the code of the guide docs/observability.md, so that the code
// compiles and is tested. It is a module of its own: the libraries for metrics and traces stay
// out of the module graphs of brim's users.
package observability
