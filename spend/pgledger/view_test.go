package pgledger_test

import (
	"testing"
	"time"

	"github.com/brimgo/brim/internal/differ"
	"github.com/brimgo/brim/internal/pgtest"
	"github.com/brimgo/brim/postgres"
	"github.com/brimgo/brim/spend"
	"github.com/brimgo/brim/spend/ledger"
)

// TestView compares each entry of the view with that of the ledger: the table leaves columns out.
// The view tells which rule declined a request, and why an account is frozen.
func TestView(t *testing.T) {
	pool := pgtest.Pool(t)
	schema := migrated(t)
	l := over(t, pool, &postgres.Options{Schema: schema})
	ctx := t.Context()
	b := budgetOf(t, l, "cards", spend.Rolling("month", euros(1<<40), 30*24*time.Hour), spend.PerTransaction("tried", euros(4)).Shadow())
	for _, id := range []string{
		"pay-1", "sixteen bytes ID", "0190b2a4-5c1e-7abc-8def-001122334455", "0190b2a45c1e7abc8def001122334455",
	} {
		r := spend.Request{ID: id, Account: "7", Amount: euros(5), Tags: map[string]string{"category": "food"}}
		if d, err := b.Authorize(ctx, r); err != nil || !d.Approved {
			t.Fatalf("%+v, %v", d, err)
		}
		capture := spend.CaptureRequest{ID: id + "/2", HoldID: id, Amount: euros(3), Final: true}
		if d, err := b.Capture(ctx, capture); err != nil || !d.Approved {
			t.Fatalf("%+v, %v", d, err)
		}
		refund := spend.RefundRequest{ID: id + "/3", SpendID: id, Amount: euros(2)}
		if d, err := b.Refund(ctx, refund); err != nil || !d.Approved {
			t.Fatalf("%+v, %v", d, err)
		}
	}
	part := spend.UpToRequest{Request: spend.Request{ID: "part", Account: "7", Amount: euros(1 << 41), TTL: time.Hour}, Least: euros(1), Hold: true}
	if d, err := b.UpTo(ctx, part); err != nil || !d.Approved {
		t.Fatalf("%+v, %v", d, err)
	}
	if d, err := b.Void(ctx, spend.VoidRequest{ID: "whole", HoldID: "part"}); err != nil || !d.Approved {
		t.Fatalf("%+v, %v", d, err)
	}
	forced := spend.Request{ID: "forced", Account: "7", Amount: euros(1), Forced: true}
	if d, err := b.Authorize(ctx, forced); err != nil || !d.Approved {
		t.Fatalf("%+v, %v", d, err)
	}
	earlier := spend.Request{ID: "earlier", Account: "7", Amount: euros(1), Dated: time.Now().Add(-time.Hour)}
	if d, err := b.Record(ctx, earlier); err != nil || !d.Approved {
		t.Fatalf("%+v, %v", d, err)
	}
	if d, err := b.Charge(ctx, spend.Request{ID: "much", Account: "7", Amount: euros(1 << 41)}); err != nil || d.Approved {
		t.Fatalf("%+v, %v", d, err)
	}
	if _, err := b.Freeze(ctx, spend.FreezeRequest{ID: "stop", Account: "7", Reason: "lost"}); err != nil {
		t.Fatal(err)
	}
	if d, err := b.Charge(ctx, spend.Request{ID: "stopped", Account: "7", Amount: euros(1), Tags: map[string]string{"reason": "mine"}}); err != nil || d.Approved {
		t.Fatalf("%+v, %v", d, err)
	}
	want, err := l.History(ctx, "cards/7", ledger.Position{}, 100)
	if err != nil || len(want) != 4*4+7 {
		t.Fatalf("%d entries, %v", len(want), err)
	}
	for id, why := range map[string]string{"pay-1": `["shadow: tried"]`, "much": `["month", "shadow: tried"]`, "stop": `{"reason": "lost"}`, "stopped": `["frozen: lost"]`} {
		const sql = ".buckets_ledger WHERE id = $1"
		if got := query[string](t, pool, "SELECT COALESCE(refused, tags)::text FROM "+schema+sql, id); got != why {
			t.Errorf("the view tells of %s: %s; want %s", id, got, why)
		}
	}
	if got := query[int64](t, pool, "SELECT least FROM "+schema+".buckets_ledger WHERE id = 'forced'"); got != -1 {
		t.Errorf("an authorization that no rule has judged has least %d; want -1", got)
	}
	rows, err := pool.Query(ctx, `SELECT account, seq, at, dated, kind, id, spend, spend_amount, part, amount, asked, least, ttl, currency, used, held, spends, expires, pending, tags, refused
		FROM `+schema+`.buckets_ledger WHERE account = 'cards/7' ORDER BY seq DESC`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for _, w := range want {
		var e ledger.Entry
		var at, dated time.Time
		var expires *time.Time
		var asked, least, ttl *int64
		if !rows.Next() {
			t.Fatalf("the view ends before %+v: %v", w, rows.Err())
		}
		err := rows.Scan(&e.Account, &e.Seq, &at, &dated, &e.Kind, &e.RequestID, &e.SpendID, &e.SpendAmount, &e.Part, &e.Amount,
			&asked, &least, &ttl, &e.Currency, &e.Used, &e.Held, &e.Count, &expires, &e.Pending, &e.Tags, &e.Refused)
		if err != nil {
			t.Fatal(err)
		}
		if e.At, e.Dated = at.UnixMicro(), dated.UnixMicro(); expires != nil {
			e.Expires = expires.UnixMicro()
		}
		for column, field := range map[*int64]*int64{asked: &e.Asked, least: &e.Least, ttl: &e.TTL} {
			if column != nil {
				*field = *column
			}
		}
		if d := differ.Fields(e, w); d != "" {
			t.Errorf("entry %d of the view, against the ledger:\n%s", w.Seq, d)
		}
	}
}
