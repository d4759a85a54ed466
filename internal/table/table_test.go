package table

import (
	"testing"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		name string
		t    *Table
		rows [][]string
		want string
	}{
		{
			"numbers, then text", New(Right("LEVEL"), Right("HELD"), Left("KEY")),
			[][]string{{"1", "200000", "a b"}, {"2.5", "", "ü"}},
			"  LEVEL    HELD  KEY\n      1  200000  a b\n    2.5          ü\n",
		},
		{
			"names and values, without a header", New(Left(""), Left("")),
			[][]string{{"level", "1"}, {"leak rate", "2 per second"}},
			"level      1\nleak rate  2 per second\n",
		},
		{
			"missing cells, cells beyond the last column, and line breaks", Numeric("a", "b"),
			[][]string{{"1"}, {"2", "3", "4"}, {"x\ny", "5"}},
			"a    b\n1\n2    3\nx y  5\n",
		},
		{"no rows", Numeric("a", "b"), nil, "a  b\n"},
		{"nothing", New(Left("")), nil, ""},
	} {
		for _, row := range c.rows {
			c.t.Add(row...)
		}
		if got := c.t.Text(); got != c.want {
			t.Errorf("%s: got\n%swant\n%s", c.name, got, c.want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	tab := Numeric("subject", "1", "two")
	tab.Add("a|b", "10")
	tab.Add("c\nd", "1", "12345", "beyond")
	want := "" +
		"| subject |   1 |   two |\n" +
		"| ------- | --: | ----: |\n" +
		`| a\|b    |  10 |       |` + "\n" +
		"| c d     |   1 | 12345 |\n"
	if got := tab.Markdown(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if tab.Rows[0][0] != "a|b" {
		t.Error("writing the table has changed its cells")
	}
}
