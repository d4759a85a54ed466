package load

// Interleave calls turn for each of n subjects in each of some rounds, and returns the first
// error. It passes the number of the round and of the subject, both from 0.
//
// The order changes from round to round: each round begins with another subject, and every other
// round runs backwards. No subject therefore always runs in the wake of the same other one. Of
// two subjects, each begins every other round.
func Interleave(rounds, n int, turn func(round, subject int) error) error {
	for round := range rounds {
		for i := range n {
			subject := (i + round) % n
			if round%2 == 1 && n > 2 { // for two, the reversal would undo the change of the first
				subject = n - 1 - subject
			}
			if err := turn(round, subject); err != nil {
				return err
			}
		}
	}
	return nil
}
