// Package docpage compares pages of the documentation with the code, for tests.
package docpage

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// Lacks returns a line for each sentence that a page does not have, and "" if it has all. A test
// writes the figures of a sentence from the constants of the code, so a change of either shows.
// Line breaks count as blanks.
func Lacks(page string, sentences ...string) string {
	text, err := os.ReadFile(page)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for flat := blanks(string(text)); len(sentences) > 0; sentences = sentences[1:] {
		if s := blanks(sentences[0]); s == "" || !strings.Contains(flat, s) { // "" is the word for an unknown figure
			lines = append(lines, fmt.Sprintf("%s does not say: %s", page, sentences[0]))
		}
	}
	return strings.Join(lines, "\n")
}

func blanks(text string) string { return strings.Join(strings.Fields(text), " ") }

// Figures returns the numbers in a cell of the row of a table whose cell 0 is name. Where several
// rows have the name, it takes the first with a number in the cell.
func Figures(page, name string, cell int) (figures []float64, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) <= cell+2 || strings.TrimSpace(cells[1]) != name {
			continue
		}
		for _, digits := range regexp.MustCompile(`\d[\d,.]*`).FindAllString(cells[1+cell], -1) {
			n, err := strconv.ParseFloat(strings.ReplaceAll(digits, ",", ""), 64)
			if err != nil {
				return nil, err
			}
			figures = append(figures, n)
		}
		if figures != nil {
			return figures, nil
		}
	}
	return nil, fmt.Errorf("%s has no row %s with a number in cell %d", page, name, cell)
}

// Thousands writes a number with commas, as the pages do.
func Thousands[N ~int | ~int32 | ~int64](n N) string {
	if n < 1000 {
		return strconv.FormatInt(int64(n), 10)
	}
	return fmt.Sprintf("%s,%03d", Thousands(n/1000), n%1000)
}
