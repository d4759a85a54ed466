package frameworks

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/labstack/echo/v4"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/httplimit"
	"github.com/brimgo/brim/memory"
)

// three admits three calls at once, and then one per minute.
var three = brim.Limit{Capacity: 3, LeakRate: 1.0 / 60}

func limiter(t *testing.T) *brim.Limiter {
	t.Helper()
	noon := time.Date(2024, 6, 1, 12, 0, 0, 0, time.UTC)
	db := memory.New(&memory.Options{Clock: func() time.Time { return noon }})
	return brim.New(db, nil)
}

func TestHTTP(t *testing.T) {
	gin.SetMode(gin.TestMode)
	for name, router := range map[string]func(limited func(http.Handler) http.Handler) http.Handler{
		"chi": func(limited func(http.Handler) http.Handler) http.Handler {
			r := chi.NewRouter()
			r.Use(limited)
			r.Get("/", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
			return r
		},
		"echo": func(limited func(http.Handler) http.Handler) http.Handler {
			e := echo.New()
			e.Use(echo.WrapMiddleware(limited))
			e.GET("/", func(c echo.Context) error { return c.NoContent(http.StatusNoContent) })
			return e
		},
		"gin": func(limited func(http.Handler) http.Handler) http.Handler {
			g := gin.New()
			g.Use(Gin(limited))
			g.GET("/", func(c *gin.Context) { c.Status(http.StatusNoContent) })
			return g
		},
	} {
		t.Run(name, func(t *testing.T) {
			limited, err := httplimit.New(limiter(t), httplimit.PerClient("site", three),
				&httplimit.Options{Fields: httplimit.DraftFields})
			if err != nil {
				t.Fatal(err)
			}
			h := router(limited)
			for i, want := range []int{204, 204, 204, 429, 429} {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
				if w.Code != want || w.Header().Get("RateLimit") == "" ||
					(w.Header().Get("Retry-After") == "60") != (want == 429) {
					t.Errorf("request %d: status %d, %v; want %d", i+1, w.Code, w.Header(), want)
				}
			}
		})
	}
}
