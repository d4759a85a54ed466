// Package frameworks puts brim's limits in front of the handlers of chi, echo, gin and gRPC, and
// into the transactions of sqlc, bun and gorm. It is a module of its own, so that the frameworks are
// not dependencies of brim.
//
// httplimit.New returns a func(http.Handler) http.Handler. chi takes that function as it is, echo
// takes it through its own adapter, and gin takes it through [Gin]. gRPC has no HTTP handlers, so
// [Unary] asks the Limiter itself.
//
// [Notes] charges in the transactions of sqlc, bun and gorm.
package frameworks
