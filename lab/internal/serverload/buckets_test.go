package serverload

import "testing"

// TestMarks applies the steps of each kind up to three times each. Only the sound ways may leave the
// mark of a stage.
func TestMarks(t *testing.T) {
	const most = 3
	for kind, list := range marks {
		seconds := most
		if len(list) == 2 {
			seconds = 0
		}
		for first := range most + 1 {
			for second := range seconds + 1 {
				found := mark{list[1].level * first, list[1].held * first}
				if second > 0 {
					found.level += (list[2].level - list[1].level) * second
					found.held += (list[2].held - list[1].held) * second
				}
				if first == 0 && second > 0 {
					continue // the second step needs the first
				}
				want := Doubled
				if first <= 1 && second <= 1 {
					want = first + second
				}
				if got := stageOf(kind, found); got != want {
					t.Errorf("%s, first step %d times, second %d times: stage %d, want %d", kind, first, second, got, want)
				}
				if found.level < 0 || found.held < 0 || found.level >= base || found.held >= base {
					t.Errorf("%s, first step %d times, second %d times: %v is no digit", kind, first, second, found)
				}
			}
		}
	}
}
