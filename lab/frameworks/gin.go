package frameworks

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// Gin turns the middleware of httplimit.New into a handler of gin. It aborts a request that the
// middleware has answered.
func Gin(limited func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		passed := false
		limited(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			passed = true
			c.Request = r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		if !passed {
			c.Abort()
		}
	}
}
