// Package load has callers ask a limiter again and again, each as soon as it is answered, and says how many answers they got
// and how long those took.
package load
