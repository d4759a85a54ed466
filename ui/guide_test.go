package ui_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/brimgo/brim"
	"github.com/brimgo/brim/bolt"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/boltledger"
	"github.com/brimgo/brim/ui"
)

// daemon holds code of docs/ui.md word for word, so that it compiles and runs.
func daemon(ctx context.Context, token string, budget spend.Budget, use func(*brim.Limiter, http.Handler) error) error {
	db, err := bolt.Open("limits.db", nil)
	if err != nil {
		return err
	}
	defer db.Close()
	rec, err := ui.NewRecorder(nil)
	if err != nil {
		return err
	}
	recorded, err := rec.Wrap(db)
	if err != nil {
		return err
	}
	limiter := brim.New(recorded, nil) // the program decides through this one

	ledger, err := boltledger.New(db, nil) // if it spends, too
	if err != nil {
		return err
	}
	defer ledger.Close()
	cards, err := spend.New(ctx, ledger, budget, &spend.Options{Hooks: []spend.Hooks{rec.Hooks()}})
	if err != nil {
		return err
	}

	page, err := ui.New(recorded, ui.Bearer(token, ui.Act), &ui.Options{
		Title: "billing", Recorder: rec, Check: db.Check, Spends: []*spend.Budgets{cards},
	})
	if err != nil {
		return err
	}
	defer page.Close() // before the store
	mux := http.NewServeMux()
	mux.Handle("/limits/", http.StripPrefix("/limits", page))
	return use(limiter, mux)
}

// byCertificate holds code of docs/ui.md word for word, too.
func byCertificate(r *http.Request) ui.Access {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return ui.None
	}
	for _, unit := range r.TLS.VerifiedChains[0][0].Subject.OrganizationalUnit {
		if unit == "operations" {
			return ui.Act
		}
	}
	return ui.Look
}

func TestGuide(t *testing.T) {
	t.Chdir(t.TempDir())
	budget := spend.Budget{Name: "cards", Currency: "EUR", Rules: []spend.Rule{spend.PerTransaction("one", spend.Money{Minor: 100, Currency: "EUR"})}}
	err := daemon(t.Context(), "a-long-enough-secret", budget, func(lim *brim.Limiter, h http.Handler) error {
		for range 2 {
			if _, err := lim.TryFillup(t.Context(), brim.Limit{Capacity: 1}.For("tenant:42"), 1); err != nil {
				return err
			}
		}
		for token, want := range map[string]int{"": http.StatusForbidden, "a-long-enough-secret": http.StatusOK} {
			r := httptest.NewRequest(http.MethodGet, "/limits/", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != want || (want == http.StatusOK) != strings.Contains(w.Body.String(), "tenant:42") ||
				(want == http.StatusOK) != strings.Contains(w.Body.String(), "<h2>Spends</h2>") {
				return fmt.Errorf("token %q: %d, %s", token, w.Code, w.Body)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if byCertificate(httptest.NewRequest(http.MethodGet, "/", nil)) != ui.None {
		t.Error("a request without TLS may look")
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	if r.TLS = new(tls.ConnectionState); byCertificate(r) != ui.None {
		t.Error("a request without a certificate may look")
	}
}
