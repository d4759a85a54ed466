package decide

import (
	"reflect"
	"testing"

	"github.com/brimgo/brim/spend/ledger"
)

// TestChainHasEveryField: another value of any field of an entry, but for its account, is another
// checksum.
func TestChainHasEveryField(t *testing.T) {
	whole := func() ledger.Entry {
		return ledger.Entry{
			Account: "cards/a", Kind: "spend", Tags: map[string]string{"a": "b"}, Refused: []string{"r"},
			Credited: []ledger.Credited{{Rule: "r", Counts: 1, Amount: 1}},
		}
	}
	e := whole()
	sum := chained(7, &e)
	differs := func(name string, change func(*ledger.Entry)) {
		t.Helper()
		e := whole()
		if change(&e); (chained(7, &e) == sum) != (name == "Account") {
			t.Errorf("another %s: the checksum is the same: %v", name, chained(7, &e) == sum)
		}
	}
	raise := func(v reflect.Value) {
		switch v.Kind() {
		case reflect.Int64:
			v.SetInt(v.Int() + 1)
		case reflect.Uint64:
			v.SetUint(v.Uint() + 1)
		case reflect.String:
			v.SetString(v.String() + "x")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		default:
			v.SetZero()
		}
	}
	for i := range reflect.TypeFor[ledger.Entry]().NumField() {
		differs(reflect.TypeFor[ledger.Entry]().Field(i).Name, func(e *ledger.Entry) { raise(reflect.ValueOf(e).Elem().Field(i)) })
	}
	for i := range reflect.TypeFor[ledger.Credited]().NumField() {
		name := reflect.TypeFor[ledger.Credited]().Field(i).Name
		differs("Credited."+name, func(e *ledger.Entry) { raise(reflect.ValueOf(&e.Credited[0]).Elem().Field(i)) })
	}
	differs("value of a tag", func(e *ledger.Entry) { e.Tags["a"] = "c" })
	differs("name of a rule", func(e *ledger.Entry) { e.Refused[0] = "s" })
	if e := whole(); chained(8, &e) == sum {
		t.Error("after other entries: the checksum is the same")
	}
}
