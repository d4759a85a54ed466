package table

import (
	"reflect"
	"testing"
)

// FuzzReadMarkdown reads arbitrary texts. A table that was read is written and read again as the
// same.
func FuzzReadMarkdown(f *testing.F) {
	for _, s := range []string{
		"| a | b |\n| --- | ---: |\n| 1 | 2 |\n", "text\n\n| a |\n|---|\n|x|y|\n", "| a \\| b |\n| --- |\n| \\| |\n", "|\n|\n|\n", "| a |\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, err := ReadMarkdown(text)
		if err != nil {
			if first != nil {
				t.Errorf("%q: %+v, %v", text, first, err)
			}
			return
		}
		for _, row := range first.Rows {
			if len(row) != len(first.Columns) {
				return // Markdown pads such a row
			}
		}
		again, err := ReadMarkdown(first.Markdown())
		if err != nil || !reflect.DeepEqual(first, again) {
			t.Errorf("%q reads as %+v; as it is written, it reads as %+v, %v", text, first, again, err)
		}
	})
}
