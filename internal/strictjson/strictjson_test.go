package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/brimgo/brim/internal/differ"
)

// upper is a string of its own form.
type upper string

func (u *upper) UnmarshalJSON(raw []byte) error {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil || s != string(raw[1:len(raw)-1]) {
		return errors.New("write plain text")
	}
	*u = upper(s)
	return nil
}

// nested decodes itself by Decode.
type nested struct{ list []upper }

func (n *nested) UnmarshalJSON(raw []byte) error { return Decode(raw, &n.list) }

type thing struct {
	Name  upper            `json:"name"`
	On    bool             `json:"on,omitempty"`
	Parts []thing          `json:"parts,omitempty"`
	Named map[string]upper `json:"named,omitempty"`
	Inner *thing           `json:"inner,omitempty"`
	Own   nested           `json:"own"`
}

func TestDecode(t *testing.T) {
	const text = ` {"name": "a", "on":true, "parts":[ {"name":"b"} ,{}], "named":{"x.y":"c","":"d"}, "inner":{"inner":{"name":"e"}}, "own":["f"]}` + "\n"
	want := thing{
		Name: "a", On: true, Parts: []thing{{Name: "b"}, {}}, Named: map[string]upper{"x.y": "c", "": "d"},
		Inner: &thing{Inner: &thing{Name: "e"}}, Own: nested{[]upper{"f"}},
	}
	var got thing
	if err := Decode([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if d := differ.Fields(got, want); d != "" {
		t.Error(d)
	}
	var empty thing
	if err := Decode([]byte(`{"parts":[],"named":{}}`), &empty); err != nil || empty.Parts == nil || empty.Named == nil {
		t.Errorf("an empty list or map is no missing one: %+v, %v", empty, err)
	}
}

func TestMistakes(t *testing.T) {
	for _, c := range []struct{ why, text, want string }{
		{"no JSON", `{`, "it is no JSON: unexpected end of JSON input"},
		{"text behind the value", `{} {}`, "it is no JSON: invalid character '{' after top-level value"},
		{"another kind of value", `[]`, "write fields as name: value"},
		{"null, which encoding/json ignores", ` null `, "null is no value; write one, or leave the field out"},
		{"null of a field", `{"inner":null}`, "inner: null is no value; write one, or leave the field out"},
		{"an unknown field", `{"parts":[{},{"names":"a"}]}`, "parts[1].names: unknown field"},
		{"a name that differs by case, which encoding/json takes", `{"NAME":"a"}`, "NAME: unknown field"},
		{"a field twice, of which encoding/json takes the second", `{"inner":{"on":true,"on":false}}`, "inner.on: the field is given twice; write it once"},
		{"a member of a map twice", `{"named":{"x":"a","x":"b"}}`, "named.x: the field is given twice; write it once"},
		{"a field twice by another spelling", `{"on":true,"\u006fn":true}`, "on: the field is given twice; write it once"},
		{"no list", `{"parts":{}}`, "parts: it must be a list: [value, value]"},
		{"no map", `{"named":[]}`, "named: write fields as name: value"},
		{"no bool", `{"on":"true"}`, `on: "true" is neither true nor false`},
		{"a mistake of a type of its own", `{"named":{"x":5}}`, "named.x: write plain text"},
		{"a place within a type of its own", `{"parts":[{"own":["a",1]}]}`, "parts[0].own[1]: write plain text"},
		{"a field without a name", `{"":1}`, `"": unknown field`},
		{"a name that looks like a path", `{"inner":{"a.b[0]":1}}`, `inner."a.b[0]": unknown field`},
	} {
		var got thing
		err := Decode([]byte(c.text), &got)
		if at := new(Error); !errors.As(err, &at) || fmt.Sprint(err) != c.want {
			t.Errorf("%s: %s: %v; want %s", c.why, c.text, err, c.want)
		}
	}
}

// TestAt: steps go before the path of a mistake, and the mistake stays.
func TestAt(t *testing.T) {
	mistake := errors.New("mistake")
	err := At(At(At(mistake), 2, "window"), "plans", "a.b")
	at := new(Error)
	if !errors.As(err, &at) || !errors.Is(err, mistake) || err.Error() != `plans."a.b"[2].window: mistake` {
		t.Errorf("%v", err)
	}
	if d := differ.Fields(at.Path, []any{"plans", "a.b", 2, "window"}); d != "" {
		t.Error(d)
	}
	if err := At(nil, "x"); err != nil {
		t.Errorf("no mistake: %v", err)
	}
}
