package load

// Interleave calls trial for each of n subjects in each round, and returns the first error. It
// passes the number of the round and of the subject, both from 0.
//
// The order changes from round to round: each round begins with another subject, and every
// second round runs backwards. So no subject always runs after the same other subject. Of two
// subjects, each begins every second round.
func Interleave(rounds, n int, trial func(round, subject int) error) error {
	for round := range rounds {
		for i := range n {
			subject := (i + round) % n
			if round%2 == 1 && n > 2 { // with two subjects, the reversal would make the same subject begin each round
				subject = n - 1 - subject
			}
			if err := trial(round, subject); err != nil {
				return err
			}
		}
	}
	return nil
}
