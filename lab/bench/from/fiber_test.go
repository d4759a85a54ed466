package from

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	fiberlimiter "github.com/gofiber/fiber/v3/middleware/limiter"

	"github.com/brimgo/brim"
)

func fiberApp(app *fiber.App) {
	app.Use(fiberlimiter.New(fiberlimiter.Config{Max: 5, Expiration: time.Minute}))
}

// limitFiber limits the requests of each address.
func limitFiber(limiter *brim.Limiter, limit brim.Limit) fiber.Handler {
	return func(c fiber.Ctx) error {
		st, err := limiter.TryFillup(c.Context(), limit.For("client:"+c.IP()), 1)
		switch {
		case err != nil:
			return fiber.ErrServiceUnavailable
		case !st.Accepted && st.RetryAfter < brim.Never:
			c.Set(fiber.HeaderRetryAfter, strconv.FormatFloat(math.Ceil(st.RetryAfter.Seconds()), 'f', 0, 64))
			fallthrough
		case !st.Accepted:
			return fiber.ErrTooManyRequests
		}
		return c.Next()
	}
}

func TestFiber(t *testing.T) {
	limiter := inMemory(t)
	for name, use := range map[string]func(*fiber.App){
		"fiber": fiberApp,
		"brim":  func(app *fiber.App) { app.Use(limitFiber(limiter, brim.Over(5, time.Minute))) },
	} {
		app := fiber.New()
		use(app)
		app.Get("/", func(c fiber.Ctx) error { return c.SendStatus(fiber.StatusOK) })
		for i := range 7 {
			resp, err := app.Test(httptest.NewRequest(http.MethodGet, "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if (resp.StatusCode == http.StatusOK) != (i < 5) {
				t.Errorf("%s: request %d: status %d", name, i+1, resp.StatusCode)
			}
			after := resp.Header.Get("Retry-After")
			if i >= 5 && (name == "brim" && after != "12" || name == "fiber" && after < "5") { // 57 to 60 seconds
				t.Errorf("%s: Retry-After %s; the page says that it is 12 with brim, and the rest of the minute with Fiber", name, after)
			}
		}
		if err := app.Shutdown(); err != nil {
			t.Error(err)
		}
	}
}
