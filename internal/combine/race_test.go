//go:build race

package combine

// raceEnabled: the race detector makes sync.Pool forget at random.
const raceEnabled = true
