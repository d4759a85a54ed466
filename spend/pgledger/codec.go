package pgledger

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/brimgo/brim/internal/pgrun"
	"github.com/brimgo/brim/spend/ledger"
	"github.com/brimgo/brim/store"
)

// kinds are the kinds of entries. A row has the place of its kind, counted from 1, and less than 0
// for an entry with Spends. The view of the entries, in the migrations, has the same list.
var kinds = strings.Split("spend,record,authorize,increase,capture,release,void,decrease,extend,expire,refund,credit,"+
	"decline,limits,freeze,unfreeze,mend,cancel,plan,reverse,move", ",")

// idBytes returns an ID as it is stored: a UUID takes 16 bytes, in the two forms in which programs
// write it; see the comment in front of the tables.
func idBytes(id string) []byte {
	switch {
	case len(id) == 36 && id[8] == '-' && id[13] == '-' && id[18] == '-' && id[23] == '-':
		if raw, ok := unhex(nil, id[:8]+id[9:13]+id[14:18]+id[19:23]+id[24:]); ok {
			return raw
		}
	case len(id) == 32:
		if raw, ok := unhex(make([]byte, 1, 17), id); ok {
			return raw
		}
	case len(id) == 16:
		return []byte("\x00\x00" + id)
	}
	return []byte(id)
}

// unhex appends the bytes of hexadecimal digits in lower case.
func unhex(b []byte, digits string) ([]byte, bool) {
	b, err := hex.AppendDecode(b, []byte(digits))
	return b, err == nil && !strings.ContainsAny(digits, "ABCDEF")
}

// idText returns the ID that is stored so.
func idText(raw []byte) string {
	switch {
	case len(raw) == 16:
		h := hex.EncodeToString(raw)
		return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	case len(raw) == 17 && raw[0] == 0:
		return hex.EncodeToString(raw[1:])
	case len(raw) == 18 && raw[0] == 0:
		return string(raw[2:])
	}
	return string(raw)
}

func idColumn(ids []string) [][]byte {
	return column(ids, func(id *string) []byte { return idBytes(*id) })
}

// mark stands before each hold in the row of an account, so that forget.sql finds an ID: no text
// has these bytes, and no time of these millennia.
const mark = "\xff\xfe"

// pack returns holds as they are stored in the row of their account.
func pack(list []ledger.Hold) []byte {
	if len(list) == 0 {
		return nil
	}
	b := make([]byte, 0, 32*len(list))
	for _, h := range list {
		id := idBytes(h.SpendID)
		b = append(append(append(b, mark...), byte(len(id))), id...)
		b = binary.BigEndian.AppendUint64(b, uint64(h.Expires))
	}
	return b
}

// unpack returns the holds that are stored so.
func unpack(account string, b []byte) (list []ledger.Hold) {
	for len(b) > len(mark) {
		n := len(mark) + 1 + int(b[len(mark)])
		if len(b) < n+8 {
			break
		}
		list = append(list, ledger.Hold{Account: account, SpendID: idText(b[len(mark)+1 : n]), Expires: int64(binary.BigEndian.Uint64(b[n:]))})
		b = b[n+8:]
	}
	return list
}

// unless returns a value, or nil if it is the one that null stands for.
func unless[T comparable](v, null T) *T {
	if v == null {
		return nil
	}
	return &v
}

// instant returns a time, or nil for 0.
func instant(us int64) *time.Time {
	if us == 0 {
		return nil
	}
	t := pgrun.Timestamp(us)
	return &t
}

// asJSON returns a value that few entries have, or nil. It cannot fail: names and values are text.
func asJSON(v any, has bool) *string {
	if !has {
		return nil
	}
	raw, _ := json.Marshal(v)
	text := string(raw)
	return &text
}

// entryRow is the target of a scan of the fragment columns().
type entryRow struct {
	ledger.Entry
	at, dated, expires pgrun.Instant
	kind               int16
	id, spend          pgrun.Octets
}

func (r *entryRow) fields() []any {
	return []any{
		&r.at, &r.dated, &r.Seq, &r.Part, &r.Used, &r.Held, &r.Amount, &r.SpendAmount, &r.Asked, &r.Least, &r.TTL, &r.expires, &r.kind, &r.Count, &r.Pending,
		&r.Currency, &r.id, &r.spend, &r.Tags, &r.Refused, &r.Credited,
	}
}

func (r *entryRow) entry(account string) (ledger.Entry, error) {
	e := r.Entry
	e.Spends = r.kind < 0
	kind := max(r.kind, -r.kind)
	if kind < 1 || int(kind) > len(kinds) {
		return e, fmt.Errorf("%w: an entry has the kind %d", store.ErrCorrupt, r.kind)
	}
	e.Account, e.Kind, e.RequestID, e.SpendID = account, kinds[kind-1], idText(r.id), idText(r.spend)
	e.At, e.Dated, e.Expires = r.at.Micros, r.dated.Micros, r.expires.Micros
	return e, nil
}

// moved returns the amount that a row leaves out.
func moved(e *ledger.Entry) int64 {
	if e.Used != 0 {
		return e.Used
	}
	return e.Held
}

// numbers are the ids of accounts, by key.
type numbers map[string]int64

// entryColumns returns the arguments of append.sql.
func (ids numbers) entryColumns(list []ledger.Entry) ([]any, error) {
	for _, e := range list {
		if !slices.Contains(kinds, e.Kind) {
			return nil, fmt.Errorf("an entry has the kind %q, which this ledger does not know", e.Kind)
		}
	}
	return []any{
		column(list, func(e *ledger.Entry) int64 { return ids[e.Account] }),
		column(list, func(e *ledger.Entry) time.Time { return pgrun.Timestamp(e.At) }),
		column(list, func(e *ledger.Entry) int64 { return e.Seq }),
		column(list, func(e *ledger.Entry) *int64 { return unless(e.Used, 0) }),
		column(list, func(e *ledger.Entry) *int64 { return unless(e.Held, 0) }),
		column(list, func(e *ledger.Entry) *int64 { return unless(e.Amount, moved(e)) }),
		column(list, func(e *ledger.Entry) *time.Time {
			if e.Part == e.Seq {
				return nil
			}
			t := pgrun.Timestamp(e.Dated)
			return &t
		}),
		column(list, func(e *ledger.Entry) *int64 { return unless(e.Part, e.Seq) }),
		column(list, func(e *ledger.Entry) *int64 { return unless(e.SpendAmount, e.Amount) }),
		column(list, func(e *ledger.Entry) *int64 { return unless(e.Asked, 0) }),
		column(list, func(e *ledger.Entry) *int64 { return unless(e.Least, 0) }),
		column(list, func(e *ledger.Entry) *int64 { return unless(e.TTL, 0) }),
		column(list, func(e *ledger.Entry) *time.Time { return instant(e.Expires) }),
		column(list, func(e *ledger.Entry) int16 {
			kind := int16(1 + slices.Index(kinds, e.Kind))
			if e.Spends {
				return -kind
			}
			return kind
		}),
		column(list, func(e *ledger.Entry) *int16 { return unless(int16(e.Count), 0) }),
		column(list, func(e *ledger.Entry) *int16 { return unless(int16(e.Pending), 0) }),
		column(list, func(e *ledger.Entry) string { return e.Currency }),
		column(list, func(e *ledger.Entry) []byte { return idBytes(e.RequestID) }),
		column(list, func(e *ledger.Entry) []byte {
			if e.SpendID == e.RequestID {
				return nil
			}
			return idBytes(e.SpendID)
		}),
		column(list, func(e *ledger.Entry) *string { return asJSON(e.Tags, len(e.Tags) > 0) }),
		column(list, func(e *ledger.Entry) *string { return asJSON(e.Refused, len(e.Refused) > 0) }),
		column(list, func(e *ledger.Entry) *string { return asJSON(e.Credited, len(e.Credited) > 0) }),
	}, nil
}

// entriesInto returns a function that appends the entry of a row to list.
func entriesInto(list *[]ledger.Entry, account string) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var r entryRow
		if err := rows.Scan(r.fields()...); err != nil {
			return err
		}
		e, err := r.entry(account)
		*list = append(*list, e)
		return err
	}
}

// revision is the target of a scan of the fragment revision(). The Seq is 0 where a row has no
// rules.
type revision struct {
	ledger.Rules
	at pgrun.Instant
}

func (r *revision) fields() []any {
	return []any{&r.Budget, &r.Seq, &r.Revision, &r.at, &r.Held, &r.By, &r.Reason, (*pgrun.Octets)(&r.Digest), &r.Text}
}

func (r *revision) rules() ledger.Rules {
	r.At = r.at.Micros
	return r.Rules
}

// ruleColumns returns the arguments of revise.sql. It sorts the list.
func ruleColumns(list []ledger.Rules) []any {
	slices.SortFunc(list, func(x, y ledger.Rules) int {
		return cmp.Or(strings.Compare(x.Budget, y.Budget), cmp.Compare(x.Seq, y.Seq))
	})
	return []any{
		column(list, func(r *ledger.Rules) string { return r.Budget }),
		column(list, func(r *ledger.Rules) int64 { return r.Seq }),
		column(list, func(r *ledger.Rules) int64 { return r.Revision }),
		column(list, func(r *ledger.Rules) time.Time { return pgrun.Timestamp(r.At) }),
		column(list, func(r *ledger.Rules) bool { return r.Held }),
		column(list, func(r *ledger.Rules) string { return r.By }),
		column(list, func(r *ledger.Rules) string { return r.Reason }),
		column(list, func(r *ledger.Rules) []byte { return r.Digest }),
		column(list, func(r *ledger.Rules) string { return string(r.Text) }),
	}
}

// scanRequest reads the columns before and after, and those of the fragment request() between them.
func scanRequest(rows pgx.Rows, before []any, after ...any) (*ledger.Request, error) {
	var id pgrun.Octets
	var at pgrun.Instant
	r := &ledger.Request{}
	columns := append(before, &id, &at, &r.Accounts,
		(*pgrun.Octets)(&r.Content), (*pgrun.Octets)(&r.Answer), (*pgrun.Octets)(&r.Spend))
	err := rows.Scan(append(columns, after...)...)
	r.ID, r.At = idText(id), at.Micros
	return r, err
}
