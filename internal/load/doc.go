// Package load generates load and measures how long the answers of a limiter take. In a closed
// loop each caller asks, waits for the answer and asks again. In an open loop calls begin at a
// given rate, whether or not earlier calls were answered. The package also compares subjects in
// alternate trials.
package load
