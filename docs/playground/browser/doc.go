// Package browser tests the playground in headless Chromium. It is a module of its own, so that the
// packages that drive the browser stay out of the root module.
package browser
