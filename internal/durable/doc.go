// Package durable makes what a program has written outlast a power failure.
package durable
