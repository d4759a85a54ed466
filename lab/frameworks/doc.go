// Package frameworks puts brim's limits in front of the handlers of chi, echo and gin, in front
// of the jobs of River, and into the transactions of sqlc, bun and gorm. For gRPC see the module
// grpclimit.
//
// httplimit.New returns a func(http.Handler) http.Handler. chi takes that function as it is, echo
// takes it through its own adapter, and gin takes it through [Gin].
//
// [JobLimit] is a middleware of River. [Notes] charges in the transactions of sqlc, bun and gorm.
package frameworks
