// Package frameworks puts brim's limits in front of the handlers of chi, echo and gin, and into the
// transactions of sqlc, bun and gorm. For gRPC see the module grpclimit, and for jobs of River the
// module riverlimit.
//
// httplimit.New returns a func(http.Handler) http.Handler. chi takes that function as it is, echo
// takes it through its own adapter, and gin takes it through [Gin].
//
// [Notes] charges in the transactions of sqlc, bun and gorm.
package frameworks
