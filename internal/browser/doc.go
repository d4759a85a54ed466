// Package browser tests the pages of package ui in headless Chromium, as a person uses them. It is a
// module of its own because of its dependencies. "make browser" runs it.
package browser
