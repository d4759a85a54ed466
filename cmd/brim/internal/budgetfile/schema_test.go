package budgetfile

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/brimgo/brim/spend"
)

// budgetsJSON are budgets by the rules that they have, and a few whole ones. A schema that loses
// one of its alternatives, or a field that it requires, judges another of them.
func budgetsJSON() (all []string) {
	for _, rule := range []string{
		`"name":"r","leaky":1.5,"drains_in":"1h"`, `"name":"r","leaky":"1.50","drains_in":"1h"`, `"name":"r","leaky":1`, `"name":"r","drains_in":"1h"`,
		`"name":"r","rolling":1,"window":"1h"`, `"name":"r","rolling":1`, `"rolling":1,"window":"1h"`,
		`"name":"r","calendar":1,"period":"day","zone":"UTC"`, `"name":"r","calendar":1,"period":"week","zone":"UTC","week_starts":"sunday"`,
		`"name":"r","calendar":1,"period":"month","zone":"UTC","month_starts":3`, `"name":"r","calendar":1,"period":"month","zone":"UTC","month_starts":"3"`,
		`"name":"r","calendar":1,"period":"year","zone":"UTC"`, `"name":"r","calendar":1,"period":"hour","zone":"UTC"`,
		`"name":"r","calendar":1,"period":"day"`, `"name":"r","calendar":1,"zone":"UTC"`,
		`"name":"r","per_transaction":1`, `"name":"r","lifetime":1`, `"name":"r","lifetime":1,"per_transaction":1`, `"name":"r"`,
		`"name":"r","count":5,"window":"1h"`, `"name":"r","count":"5","window":"1h"`, `"name":"r","count":5`,
		`"name":"r","count":5,"period":"day","zone":"UTC"`, `"name":"r","count":5,"period":"day"`, `"name":"r","count":5,"zone":"UTC"`,
		`"name":"r","lifetime":1,"where":{"a":"b"}`, `"name":"r","lifetime":1,"where":{"a":["b","c"]}`, `"name":"r","lifetime":1,"where":{}`,
		`"name":"r","lifetime":1,"thresholds":[80]`, `"name":"r","lifetime":1,"thresholds":["80"]`,
		`"name":"r","lifetime":1,"shadow":true`, `"name":"r","lifetime":1,"shadow":1`, `"name":"frozen: r","lifetime":1`, `"name":"frozen","lifetime":1`,
	} {
		all = append(all, `{"budget":"b","currency":"EUR","rules":[{`+rule+`}]}`)
	}
	rules := `"rules":[{"name":"r","lifetime":1}]`
	for _, field := range []string{`"revision":3`, `"revision":"3"`, `"revision":-1`, `"retired":["old"]`, `"retired":[""]`} {
		all = append(all, `{"budget":"b","currency":"EUR",`+field+`,`+rules+`}`)
	}
	return append(all, `{"currency":"EUR",`+rules+`}`, `{"budget":"b",`+rules+`}`, `{"budget":"b","currency":"EUR"}`,
		`{"budget":"b","currency":"EUR",`+rules+`,"plans":{"p":[{"name":"r","lifetime":2}]}}`)
}

// TestSchema: the schema takes the budgets that are read, and no others, and it needs each of its
// alternatives, of its values and of the fields that it requires.
func TestSchema(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/budget.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	schema := parsed(t, text)
	for i, valid := range judge(t, schema) {
		text := budgetsJSON()[i]
		if err := new(spend.Budget).UnmarshalJSON([]byte(text)); (err == nil) != valid {
			t.Errorf("%s is read with %v; by the schema it is valid: %v", text, err, valid)
		}
	}
	verdicts, weakened := judge(t, schema), 0
	var visit func(path string, v any)
	visit = func(path string, v any) {
		object, _ := v.(map[string]any)
		for name, v := range object {
			visit(path+"/"+name, v)
			list, ok := v.([]any)
			if !ok {
				continue
			}
			for i := range list {
				visit(path+"/"+name, list[i])
				object[name] = slices.Delete(slices.Clone(list), i, i+1)
				if len(list) > 1 || name == "required" {
					weakened++
					if slices.Equal(judge(t, schema), verdicts) {
						t.Errorf("no budget shows that %s needs %v", path+"/"+name, list[i])
					}
				}
				object[name] = v
			}
		}
	}
	visit("", schema)
	if weakened < 30 {
		t.Errorf("the schema has %d alternatives, want at least 30", weakened)
	}
}

// judge tells which of the budgets are valid.
func judge(t *testing.T, schema any) (valid []bool) {
	t.Helper()
	c := jsonschema.NewCompiler()
	if err := c.AddResource("budget.json", schema); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("budget.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range budgetsJSON() {
		valid = append(valid, s.Validate(parsed(t, []byte(text))) == nil)
	}
	return valid
}

func parsed(t *testing.T, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}
