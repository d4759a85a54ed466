package browser

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/brimgo/brim/spend"
)

func cents(n int64) spend.Money { return spend.Money{Minor: n, Currency: "EUR"} }

// cards is a budget with a rule in the shadow.
var cards = spend.Budget{Name: "cards", Currency: "EUR", Revision: 3, Rules: []spend.Rule{
	spend.Rolling("day", cents(200_00), 24*time.Hour), spend.Count("often", 9, 24*time.Hour), spend.PerTransaction("draft", cents(45_00)).Shadow(),
}}

// hostileName is the name of an account, and an ID, that could break a page.
const hostileName = "</a><script>document.title='broken'</script>"

// spend charges accounts.
func (p *program) spend(t *testing.T) {
	t.Helper()
	for i := range 40 {
		p.advance(time.Second)
		r := spend.Request{ID: fmt.Sprint("pay-", i), Account: "card:7", Amount: cents(int64(5_00 + i*7919%60_00))}
		if _, err := p.cards.Charge(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// tighter is a budget with a lower limit of a day, as JSON.
const tighter = `{"budget": "cards", "currency": "EUR", "rules": [{"name": "day", "rolling": "80.00", "window": "24h"}]}`

// TestWhyDeclined finds out by keyboard, with script and without, why a request was declined, and
// the decisions of other rules.
func TestWhyDeclined(t *testing.T) {
	for _, l := range []look{{}, {width: 360}, {noScript: true}} {
		t.Run(fmt.Sprintf("%+v", l), func(t *testing.T) {
			p := newProgram(t)
			p.populate(t)
			b := newTab(t, l)
			b.open(p.page(""))
			b.tabTo("Spends")
			b.press(kb.Enter, "ID of a request")
			b.write("account", "card:7")
			b.press(kb.Enter, "An account of budget cards")
			b.wants("Declined", "Would have been declined by rules in the shadow", "draft")
			b.tabTo("pay-39")
			b.press(kb.Enter, "by revision 3 of the rules")
			b.wants("Declined", "would have fit", "day: refused", "What the rules had counted before")
			b.open(p.page("account?budget=cards&account=card:7"))
			b.tabTo("Backtest")
			b.press(kb.Enter, "Rules as JSON")
			evaluate[any](b, fmt.Sprintf("document.getElementById('since').value = '1000d'; document.getElementById('rules').value = %q", tighter))
			b.tabTo("button")
			if now := b.focused(); strings.Contains(now, "Pause") {
				b.tabTo("Decide anew")
			}
			b.press(kb.Enter, "What would have been decided")
			b.wants("would be declined by day", "It is not known whether")
			if svg := evaluate[int](b, "document.querySelectorAll('svg.plot polyline').length"); svg < 2 {
				t.Errorf("the picture has %d curves", svg)
			}
			b.open(p.page("account?budget=cards&account=" + url.QueryEscape(hostileName)))
			b.wants("An account of budget cards", hostileName)
			b.click(`a[href*="explain"]`)
			b.wants("by revision 3 of the rules")
			if title := evaluate[string](b, "document.title"); strings.HasPrefix(title, "broken") {
				t.Error("a name became script")
			}
			b.quiet()
		})
	}
}
