// Package frameworks shows brim's limits in front of the handlers of chi, echo, gin and gRPC. It is a module of its own, so
// that none of them is a dependency of brim.
//
// What httplimit returns is a func(http.Handler) http.Handler: chi takes it as it is, echo through its own adapter, and gin needs
// the few lines of [Gin]. gRPC has no HTTP handlers; [Unary] asks the Limiter itself.
package frameworks
