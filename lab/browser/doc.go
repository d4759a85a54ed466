// Package browser tests the pages of package ui in headless Chromium, as a person uses them.
// "make browser" runs it.
package browser
