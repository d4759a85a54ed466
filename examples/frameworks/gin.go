package frameworks

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// Gin makes a handler of gin's from what httplimit.New returns. A request that the limit answers itself goes no further.
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
