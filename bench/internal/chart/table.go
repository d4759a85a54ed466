package chart

import (
	"strings"
	"unicode/utf8"
)

// Table is rows of text under a header. The first column is aligned to the left, the others to the right.
type Table struct {
	Header []string
	Rows   [][]string
}

// Add adds a row. Cells that are missing at its end are empty, those beyond the header are left out.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Markdown writes the table, in columns that are as readable as the rendered ones.
func (t *Table) Markdown() string {
	width := make([]int, len(t.Header))
	rows := make([][]string, 0, len(t.Rows)+1)
	for _, cells := range append([][]string{t.Header}, t.Rows...) {
		row := make([]string, len(t.Header))
		for i := range min(len(row), len(cells)) {
			row[i] = strings.ReplaceAll(strings.ReplaceAll(cells[i], "|", `\|`), "\n", " ")
			width[i] = max(width[i], 3, utf8.RuneCountInString(row[i]))
		}
		rows = append(rows, row)
	}
	var b strings.Builder
	for n, row := range rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			b.WriteString("| ")
			if i > 0 {
				b.WriteString(pad + cell + " ")
			} else {
				b.WriteString(cell + pad + " ")
			}
		}
		b.WriteString("|\n")
		if n == 0 {
			for i, w := range width {
				b.WriteString("| " + strings.Repeat("-", w-1))
				if i > 0 {
					b.WriteString(": ")
				} else {
					b.WriteString("- ")
				}
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}
